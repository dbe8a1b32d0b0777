"""`holdfast record` on a real control plane, with the ClusterRole of docs/record.md: a scaling, a rollout, an eviction and a
Job are in the file as they happened, and its pods are accepted by the API server again.

Run by `make e2e`. Holdfast launches the nodes; kubelets and EC2 are simulated.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import process_environment
from cluster_environment import workload
from holdfast import errors
from holdfast.api import documents
from holdfast.app.sandbox import ControlPlane
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.kinds import Deployment, Pod
from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.simulate import recordings
from process_environment import ProcessEnvironment

DOCS = Path(__file__).resolve().parents[2] / "docs/record.md"
ROLE = "holdfast-record"
RUNS_S = 15
Json = dict[str, Any]


async def restricted(env: ProcessEnvironment, folder: Path) -> Path:
    """A kubeconfig of a ServiceAccount with the rights in the docs."""
    text = DOCS.read_text()
    (role,) = documents.read(text.partition("```yaml\n")[2].partition("```")[0].encode())
    assert isinstance(role, documents.Document)
    await env.sandbox.create(role.value)
    await env.sandbox.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ROLE}})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": ROLE, "namespace": "default"}],
    }
    await env.sandbox.create(binding)
    path = f"/api/v1/namespaces/default/serviceaccounts/{ROLE}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    headers = {"content-type": "application/json"}
    answer = await env.sandbox.transport.request("POST", path, {}, headers, json.dumps(body).encode())
    assert isinstance(answer.body, bytes)
    kubeconfig = folder / "restricted"
    token = json.loads(answer.body)["status"]["token"]
    kubeconfig.write_text(env.sandbox.address.kubeconfig(token))
    return kubeconfig


async def until_running(env: ProcessEnvironment, app: str, count: int, cpu: str = "") -> None:
    async def holds() -> bool:
        found = [
            pod
            for pod in (await env.kube.list(Pod)).items
            if pod.metadata.labels.get("app") == app and not pods.is_terminating(pod)
        ]
        requests = {pod.spec["containers"][0]["resources"]["requests"]["cpu"] for pod in found}
        return len(found) == count and all(map(pods.ready, found)) and (not cpu or requests == {cpu})

    await env.until(holds, f"{count} pods of {app} run")


async def is_changed(env: ProcessEnvironment, cpu: str) -> bool:
    """Changes the template. The Deployment controller may write the status between the read and the patch."""
    deployment = await env.kube.get(Deployment, "acme-web", "default")
    (container,) = deployment.spec["template"]["spec"]["containers"]
    container = container | {"resources": {"requests": {"cpu": cpu}}}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    try:
        await env.kube.patch(deployment, change, only_if_unchanged=True)
    except errors.Conflict:
        return False
    return True


async def story(env: ProcessEnvironment) -> None:
    deployment = await env.kube.get(Deployment, "acme-web", "default")
    await env.kube.patch(deployment, {"spec": {"replicas": 5}})
    await until_running(env, "acme-web", 5)
    evicted = next(
        pod for pod in (await env.kube.list(Pod)).items if pod.metadata.labels.get("app") == "acme-web"
    )
    await env.kube.evict("default", evicted.metadata.name, evicted.metadata.uid)
    await until_running(env, "acme-web", 5)
    await env.until(lambda: is_changed(env, "300m"), "the Deployment is changed")
    job = workload(
        "acme-train", parallelism=2, completions=2, restartPolicy="Never", cpu="200m",
        annotations={RUNS_FOR: str(RUNS_S)},
    )  # fmt: skip
    await env.sandbox.create({"apiVersion": "batch/v1", "kind": "Job"} | job)
    await until_running(env, "acme-web", 5, "300m")

    async def job_ended() -> bool:
        found = [
            one for one in (await env.kube.list(Pod)).items if one.metadata.labels.get("app") == "acme-train"
        ]
        return len(found) == 2 and all(one.status.get("phase") == "Succeeded" for one in found)

    await env.until(job_ended, "the Job has ended")


def test_recording_of_a_real_control_plane(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"

    async def main() -> None:
        async with process_environment.serving(tmp_path, control_plane=ControlPlane.REAL) as env:
            await env.node_class()
            await env.node_pool()
            await env.start()
            await env.deploy("acme-web", replicas=3, cpu="200m")
            await until_running(env, "acme-web", 3)
            kubeconfig = await restricted(env, tmp_path)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "holdfast", "record", "-o", str(path), "--kubeconfig", str(kubeconfig),
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stderr is not None
            assert b"Recording to" in await process.stderr.readline()
            await story(env)
            await asyncio.sleep(2)
            process.send_signal(signal.SIGINT)
            _, error = await process.communicate()
            assert (process.returncode, b"note" in error) == (0, False), error
            await created_again(env)

    async def created_again(env: ProcessEnvironment) -> None:
        found = recordings.read(path)
        for document in recordings.setup(found):
            await env.sandbox.create(document)
        for one in found.groups:
            await env.sandbox.create(replayed(one.name, one.namespace, one.templates[-1][1]))
        for run in found.runs:
            meta = {**run.template["metadata"], "name": run.name, "namespace": run.namespace}
            spec = run.template["spec"]
            await env.sandbox.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    asyncio.run(main())
    recording = recordings.read(path)
    (group,) = recording.groups
    assert (group.kind, [count for _, count in group.changes]) == ("Deployment", [3, 5])
    requests = [one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for _, one in group.templates]
    assert requests == ["200m", "300m"]
    assert [one.how for one in recording.runs] == ["succeeded"] * 2
    assert len({one.job for one in recording.runs}) == 1
    assert all(one.length_s is not None and abs(one.length_s - RUNS_S) <= 3 for one in recording.runs)
    assert (recording.notes, recording.gaps) == ((), ())


def replayed(name: str, namespace: str, template: Json) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    }
