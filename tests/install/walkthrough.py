"""Runs the commands of docs/install.md as they are written, on a cluster without CRDs.

Left out are the commands of the AWS CLI and of the registry: the image is imported into containerd, and the simulated
account has the roles, the queue and the tags that the page creates. Admission policies give the pods of the controller
the address of the simulated AWS, as a webhook of EKS gives them their credentials, and keep a Job on a real node.
"""

import asyncio
import os
import re
from pathlib import Path
from typing import Any, Final

import fetch_kubectl
import page_commands
from install import installation
from install.installation import Installation, timed

NAMESPACE: Final = "kube-system"
ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/install.md"
DOCTOR_PAGE: Final = ROOT / "docs/doctor.md"
INSTALL: Final = (
    "Write the values file",
    "Install the CRDs",
    "Check the cluster and the account",
    "Install the controller",
    "Launch the first node",
)
_POLICY: Final = "admissionregistration.k8s.io/v1"
_BASH: Final = Path("/bin/bash")


def image() -> str:
    """The name that the page gives the image."""
    (build,) = page_commands.of(PAGE, "The image")
    (found,) = re.findall(r"--tag ([^\s']+)", build)
    return str(found)


async def run(it: Installation) -> None:
    checkout = it.folder / "checkout"  # so that the commands write no file into the repository
    checkout.mkdir()
    for path in ROOT.iterdir():
        (checkout / path.name).symlink_to(path)
    for document in _admission(it):
        await it.env.create(document)

    with timed("all commands of the section Install"):
        for heading in INSTALL:
            await _step(it, heading)
    assert "nodes keep running" in it.helm("get", "notes", "holdfast")
    (claim,) = it.get("nodeclaims")["items"]
    assert claim["metadata"]["labels"]["karpenter.sh/capacity-type"] == "reserved"
    assert list(it.instances().values()) == [installation.WALKTHROUGH_SLOTS]

    await _check_job(it)
    await _step(it, "Upgrade")
    assert list(it.instances().values()) == [installation.WALKTHROUGH_SLOTS]
    await _step(it, "Uninstall")
    assert it.instances() == {}
    await it.until(lambda: not it.controller_pods(), "the controller is gone")
    await _step(it, "Without Helm releases")
    await it.until(lambda: len(_ready(it)) == installation.REPLICAS, "both replicas are ready")

    words = f"helm template holdfast charts/holdfast --namespace {NAMESPACE} --values holdfast-values.yaml"
    await asyncio.to_thread(_shell, it, f"{words} | kubectl delete -f -")
    await it.until(lambda: not it.controller_pods(), "the controller is gone")
    await asyncio.to_thread(it.kubectl, "delete", "deployment", "first")
    await asyncio.to_thread(it.kubectl, "delete", "crds", "--all")
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        await asyncio.to_thread(it.kubectl, "delete", kind, "--all")


async def _step(it: Installation, heading: str, page: Path = PAGE) -> str:
    with timed(f"{page.name}: {heading}"):
        blocks = page_commands.of(page, heading)
        assert blocks, f"{page.name} has no commands below {heading}"
        printed = [await asyncio.to_thread(_shell, it, block) for block in blocks]
    return "".join(printed)


async def _check_job(it: Installation) -> None:
    """`holdfast doctor` as a Job, with the rights of the controller."""
    await _step(it, "From a laptop or as a Job", DOCTOR_PAGE)
    name = "holdfast-doctor"
    wait = ("wait", "--for=condition=Complete", f"job/{name}", "-n", NAMESPACE, "--timeout=120s")
    await asyncio.to_thread(it.kubectl, *wait)
    (pod,) = it.get("pods", "-n", NAMESPACE, "-l", f"job-name={name}")["items"]
    log = it.log(pod)
    assert re.search(r"\d+ ok, \d+ info, \d+ warning, 0 error", log), log
    assert f"User/system:serviceaccount:{NAMESPACE}:holdfast: has all" in log
    await asyncio.to_thread(it.kubectl, "delete", "job", name, "-n", NAMESPACE)


def _shell(it: Installation, block: str) -> str:
    tools = {fetch_kubectl.helm().parent, fetch_kubectl.kubectl().parent}
    path = ":".join([*map(str, tools), os.environ["PATH"]])
    aws = {key: value for key, value in it.env.environment().items() if key.startswith("AWS_")}
    return it.tool(_BASH, "-euo", "pipefail", "-c", block, cwd=it.folder / "checkout", PATH=path, **aws)


def _ready(it: Installation) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in it.controller_pods()
        for one in pod["status"].get("conditions", ())
        if (one["type"], one["status"]) == ("Ready", "True")
    ]


def _admission(it: Installation) -> list[dict[str, Any]]:
    variables = ", ".join(
        f'Object.spec.containers.env{{name: "{name}", value: "{value}"}}'
        for name, value in {**it.aws_variables(), "AWS_REGION": it.env.cloud.about.region}.items()
    )
    containers = f"object.spec.containers.map(c, Object.spec.containers{{name: c.name, env: [{variables}]}})"
    is_holdfast = "object.spec.serviceAccountName == 'holdfast'"
    of_job = f"{is_holdfast} && 'job-name' in object.metadata.labels"
    return [
        *_policy("simulated-aws", is_holdfast, f"containers: {containers}"),
        *_policy("real-node", of_job, f'nodeName: "{it.nodes[0].name}"'),
    ]


def _policy(name: str, condition: str, fields: str) -> list[dict[str, Any]]:
    """Sets fields in the spec of new pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    apply = {"expression": f"Object{{spec: Object.spec{{{fields}}}}}"}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "pods", "expression": condition}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": apply}],
    }
    named = {"apiVersion": _POLICY, "metadata": {"name": name}}
    return [
        {**named, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**named, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}},
    ]
