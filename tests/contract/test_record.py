"""`holdfast record` as a process, against the API server of a sandbox: it only reads, and its file survives a crash."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import process_environment
from cluster_environment import workload
from holdfast.api import documents
from holdfast.sim.cluster.kinds import Deployment, Pod
from holdfast.simulate import recordings
from holdfast.simulate.recordings import Recording
from process_environment import WITHIN_S, ProcessEnvironment

READ = {"/api/v1/pods", "/apis/apps/v1/daemonsets", "/apis/policy/v1/poddisruptionbudgets"}
Json = dict[str, Any]
Program = Callable[[ProcessEnvironment], Awaitable[None]]


def run(folder: Path, program: Program) -> None:
    async def main() -> None:
        async with process_environment.serving(folder) as env:
            await program(env)

    asyncio.run(main())


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, words: str) -> str:
        """Waits for a line of standard error with these words."""
        assert self._process.stderr is not None
        text = ""
        async with asyncio.timeout(WITHIN_S):
            while words not in text:
                line = (await self._process.stderr.readline()).decode()
                assert line, f"it ended without {words!r}: {text}"
                text += line
        return text

    async def end(self, number: int | None = None) -> tuple[int, str]:
        if number is not None:
            self._process.send_signal(number)
        async with asyncio.timeout(WITHIN_S):
            _, error = await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode, error.decode()


@contextlib.asynccontextmanager
async def recording(env: ProcessEnvironment, *arguments: str, **environ: str) -> AsyncIterator[Process]:
    """The command, in an environment without AWS. Checks that it sent only lists and watches of three kinds."""
    kept = {key: value for key, value in env.environ.items() if not key.startswith("AWS_")}
    asked = len(env.front.asked)
    env.cloud.endpoint.log.clear()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", "record", *arguments,
        env=kept | environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    requests = env.front.asked[asked:]
    assert {one.method for one in requests} <= {"GET"}
    assert {one.path for one in requests} <= READ
    assert [one.operation for one in env.cloud.endpoint.log] == []


async def set_up(env: ProcessEnvironment) -> None:
    """Three pods of a Deployment and two of a Job wait; there is a DaemonSet and a PodDisruptionBudget."""
    await env.deploy("acme-web", replicas=3, cpu="100m")
    agent = workload("acme-agent", cpu="50m", priorityClassName="system-node-critical")
    await env.sandbox.create({"apiVersion": "apps/v1", "kind": "DaemonSet"} | agent)
    spec = {"minAvailable": "50%", "selector": {"matchLabels": {"app": "acme-web"}}}
    meta = {"name": "acme-web", "namespace": "default"}
    await env.sandbox.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
    )
    job = workload("acme-train", parallelism=2, completions=2, restartPolicy="Never", cpu="1")
    await env.sandbox.create({"apiVersion": "batch/v1", "kind": "Job"} | job)
    await env.until(lambda: has_pods(env, 5), "five pods exist")


async def has_pods(env: ProcessEnvironment, count: int) -> bool:
    return len((await env.kube.list(Pod)).items) == count


async def set_phase(env: ProcessEnvironment, app: str, phase: str) -> None:
    """As a kubelet would: the sandbox has no nodes."""
    for pod in (await env.kube.list(Pod)).items:
        if pod.metadata.labels.get("app") == app:
            await env.kube.patch(pod, {"status": {"phase": phase}}, status=True)


async def names_of(env: ProcessEnvironment) -> set[str]:
    pods = (await env.kube.list(Pod)).items
    return {one.metadata.name for one in pods} | {one.metadata.uid for one in pods} | {"acme", "example/app"}


async def until_read(path: Path, holds: Callable[[Recording], bool]) -> Recording:
    """Reads the file while it is written."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = recordings.read(path)
            if holds(found):
                return found
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_file_has_what_happened_until_ctrl_c_and_no_names(tmp_path: Path, number: int) -> None:
    path = tmp_path / "week.jsonl"

    async def program(env: ProcessEnvironment) -> None:
        await set_up(env)
        async with recording(env, "-o", str(path)) as process:
            await process.line("Press Ctrl-C to stop.")
            deployment = await env.kube.get(Deployment, "acme-web", "default")
            await env.kube.patch(deployment, {"spec": {"replicas": 5}})
            await set_phase(env, "acme-train", "Running")
            await env.until(lambda: has_pods(env, 7), "the Deployment has two more pods")
            await env.clock.sleep(2)
            await set_phase(env, "acme-train", "Succeeded")
            await env.clock.sleep(2)
            code, error = await process.end(number)
        assert (code, f"Wrote {path}: 7 pods" in error) == (0, True)
        text = path.read_text()
        assert [name for name in await names_of(env) if name in text] == []

    run(tmp_path, program)
    found = recordings.read(path)
    (group,) = found.groups
    assert [count for _, count in group.changes] == [3, 5]
    assert [(one.after_s, one.how) for one in found.runs] == [(0, "succeeded")] * 2
    assert all(one.length_s is not None and 1 <= one.length_s <= 60 for one in found.runs)
    ((_, agent),) = found.daemons[0].templates
    assert agent["spec"]["priorityClassName"] == "system-node-critical"
    (budget,) = found.budgets
    assert (budget.namespace, budget.spec["minAvailable"]) == (group.namespace, "50%")
    assert group.template["metadata"]["labels"].items() >= budget.spec["selector"]["matchLabels"].items()
    assert found.notes == ()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_killed_process_leaves_a_valid_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    async def program(env: ProcessEnvironment) -> None:
        await set_up(env)
        async with recording(env, "-o", str(path)) as process:
            await process.line("Press Ctrl-C to stop.")
            deployment = await env.kube.get(Deployment, "acme-web", "default")
            await env.kube.patch(deployment, {"spec": {"replicas": 4}})
            await until_read(path, lambda found: found.groups[0].changes[-1][1] == 4)
            await process.end(signal.SIGKILL)

    run(tmp_path, program)
    found = recordings.read(path)
    assert [count for _, count in found.groups[0].changes] == [3, 4]
    assert [(one.length_s, one.how) for one in found.runs] == [(None, "")] * 2
    assert found.notes == ("the recording was interrupted; it is used up to its last line",)


def test_recording_ends_by_itself_and_its_pods_can_be_created_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    async def program(env: ProcessEnvironment) -> None:
        await set_up(env)
        async with recording(env, "-o", str(path), "--for", "2s") as process:
            assert (await process.end())[0] == 0
        found = recordings.read(path)
        for document in recordings.setup(found):
            await env.sandbox.create(document)
        for document in replayed(found):
            await env.sandbox.create(document)
        await env.until(lambda: has_pods(env, 10), "the pods exist a second time")

    run(tmp_path, program)


def replayed(found: Recording) -> list[Json]:
    """The groups as Deployments, the DaemonSets, and the runs as pods."""
    documents = [
        _replayed("Deployment", one.name, one.namespace, one.template, replicas=one.changes[0][1])
        for one in found.groups
    ]
    documents += [
        _replayed("DaemonSet", one.name, one.namespace, one.templates[0][1]) for one in found.daemons
    ]
    for one in found.runs:
        meta = {**one.template["metadata"], "name": one.name, "namespace": one.namespace}
        documents.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": one.template["spec"]})
    return documents


def _replayed(kind: str, name: str, namespace: str, template: Json, **spec: Any) -> Json:
    selector = {"matchLabels": template["metadata"]["labels"]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector, "template": template, **spec},
    }


def test_rights_in_the_docs_are_the_kinds_that_are_read() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/record.md").read_text()
    (found,) = documents.read(text.partition("```yaml\n")[2].partition("```")[0].encode())
    assert isinstance(found, documents.Document)
    rules = found.value["rules"]
    assert [rule["verbs"] for rule in rules] == [["list", "watch"]] * 3
    granted = {(*rule["apiGroups"], *rule["resources"]) for rule in rules}
    assert granted == {("", "pods"), ("apps", "daemonsets"), ("policy", "poddisruptionbudgets")}


def test_what_prevents_a_recording_is_reported(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        existing = tmp_path / "existing"
        existing.write_text("precious")
        for arguments, expected, words in (
            (["-o", str(existing)], 1, "exists already"),
            (["-o", str(tmp_path / "no" / "a"), "--for", "1s"], 1, "cannot be written: No such file"),
            (["-o", str(tmp_path), "--force", "--for", "1s"], 1, "cannot be written: Is a directory"),
            (["-o", str(tmp_path / "a"), "--for", "long"], 2, "not a duration"),
            (["-o", str(tmp_path / "a"), "--kubeconfig", str(tmp_path / "missing")], 2, "missing"),
            (["-o", str(tmp_path / "a"), "--context", "other"], 2, "other"),
            ([], 2, "--output"),
        ):
            async with recording(env, *arguments) as process:
                code, error = await process.end()
            assert (code, words in error) == (expected, True), error
            assert "Traceback" not in error
        assert existing.read_text() == "precious"
        assert not (tmp_path / "a").exists()

    run(tmp_path, program)


def test_unreachable_cluster_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        """\
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""
    )

    async def program(env: ProcessEnvironment) -> None:
        async with recording(env, "-o", str(tmp_path / "a"), "--kubeconfig", str(config)) as process:
            code, error = await process.end()
        assert (code, "Traceback" in error) == (3, False), error
        assert not (tmp_path / "a").exists()

    run(tmp_path, program)
