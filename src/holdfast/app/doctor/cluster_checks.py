"""Checks of the cluster: API server, rights, Karpenter, Holdfast, clock. Pure.

Called by `diagnosis`. Each function takes what was read and returns its results; what could not be read is a result.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from holdfast import errors
from holdfast.app import karpenter as karpenter_signs
from holdfast.app import rights as rights_table
from holdfast.app.doctor.cluster_reading import SERVICE_ACCOUNT, ClusterReading, DeploymentView
from holdfast.app.rights import Right
from holdfast.model import check_results, wording
from holdfast.model.check_results import CheckResult
from holdfast.runtime.clock import WARN_FROM_S

API_SERVER: Final = "api-server"
RIGHTS: Final = "kubernetes-rights"
KARPENTER: Final = "karpenter"
HOLDFAST: Final = "holdfast"
CLOCK: Final = "clock"
DNS: Final = "dns"

OLDEST: Final = (1, 30)
NEWEST: Final = (1, 36)
_GRANT: Final = "grant it: helm upgrade --install holdfast charts/holdfast"
_DIGEST: Final = "@sha256:"
_UNVERSIONED: Final = ("", "latest")


def api_server(reading: ClusterReading) -> Iterator[CheckResult]:
    about, version = f"API server {reading.server}", reading.version
    if isinstance(version, errors.HoldfastError):
        fix = "correct --kubeconfig and --context, or the network; kubectl version must work"
        if isinstance(version, errors.Unauthorized):
            fix = "use valid credentials: kubectl auth whoami must work"
        yield check_results.error(API_SERVER, about, f"cannot be reached: {version}", fix)
        return
    major, minor = (int(part) for part in version.split("."))
    if OLDEST <= (major, minor) <= NEWEST:
        yield check_results.ok(API_SERVER, about, f"Kubernetes {version}")
        return
    tested = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"
    fix = "upgrade the cluster" if (major, minor) < OLDEST else "use a newer version of Holdfast"
    yield check_results.warning(API_SERVER, about, f"Kubernetes {version}; Holdfast supports {tested}", fix)


def rights(reading: ClusterReading) -> Iterator[CheckResult]:
    """One line for each resource on which a verb is denied."""
    about = f"User/{reading.subject or 'unknown'}"
    denied: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for right, allowed in reading.rights.items():
        if isinstance(allowed, errors.HoldfastError):
            fix = "run holdfast doctor as the ServiceAccount of Holdfast, or allow create on subjectaccessreviews"
            yield check_results.info(RIGHTS, about, f"cannot be checked: {allowed}", fix)
            return
        if not allowed:
            denied[right.group, right.resource, right.namespace, right.name].append(right.verb)
    if denied and not any(reading.rights.values()):
        yield check_results.error(RIGHTS, about, f"has none of the {len(reading.rights)} rights", _GRANT)
        return
    for (group, resource, namespace, name), verbs in sorted(denied.items()):
        yield check_results.error(
            RIGHTS,
            about,
            f"may not {', '.join(verbs)} {_words(Right(group, resource, '', name, namespace))}",
            _GRANT,
        )
    if not denied and reading.rights:
        is_account = reading.subject.startswith(SERVICE_ACCOUNT)
        hint = "" if is_account else "; this is no ServiceAccount: set --service-account"
        yield check_results.ok(RIGHTS, about, f"has all {len(reading.rights)} rights{hint}")


def _words(right: Right) -> str:
    resource = f"{right.resource}.{right.group}" if right.group else right.resource
    name = f" {right.name}" if right.name else ""
    return f"{resource}{name}{f' in namespace {right.namespace}' if right.namespace else ''}"


def karpenter(reading: ClusterReading, *, beside: bool) -> Iterator[CheckResult]:
    """`beside`: the setting --beside-karpenter."""
    leases, deployments = reading.karpenter_leases, reading.karpenter
    for read, right in ((leases, "list leases"), (deployments, "list deployments")):
        if isinstance(read, errors.HoldfastError):
            yield check_results.info(KARPENTER, "Karpenter", f"cannot be checked: {read}", f"allow {right}")
    held = [
        one
        for one in (() if isinstance(leases, errors.HoldfastError) else leases)
        if karpenter_signs.is_held(one, reading.now_s)
    ]
    running = [
        one for one in (() if isinstance(deployments, errors.HoldfastError) else deployments) if one.replicas
    ]
    found = [(_named(one), f"has {wording.count(one.replicas, 'replica')}", _scale(one)) for one in running]
    if not found:  # a Karpenter of another name
        for lease in held:
            name = f"Lease/{lease.metadata.namespace}/{lease.metadata.name}"
            fix = "scale Karpenter to zero"
            found.append((name, f"{lease.spec.holder_identity} holds it", fix))
    for about, words, fix in found:
        if beside:
            divided = "Holdfast acts only on NodePools with an EC2NodeClass of holdfast.dev"
            yield check_results.info(KARPENTER, about, f"{words}; --beside-karpenter is set: {divided}")
        else:
            both = "both would launch nodes for the same pods"
            yield check_results.error(KARPENTER, about, f"Karpenter runs: {words}; {both}", fix)
    read_both = not isinstance(leases, errors.HoldfastError) and not isinstance(
        deployments, errors.HoldfastError
    )
    if not found and read_both:
        yield check_results.ok(KARPENTER, "Karpenter", "does not run")


def _scale(one: DeploymentView) -> str:
    return f"kubectl scale -n {one.namespace} deployment/{one.name} --replicas=0"


def holdfast(reading: ClusterReading, version: str) -> Iterator[CheckResult]:
    """`version` is that of this command."""
    if isinstance(reading.holdfast, errors.HoldfastError):
        yield check_results.info(
            HOLDFAST, "Holdfast", f"cannot be checked: {reading.holdfast}", "allow list deployments"
        )
        return
    for one in reading.holdfast:
        about, tag = _named(one), _tag(one.image)
        state = f"{one.ready} of {wording.count(one.replicas, 'replica')} ready"
        if tag.removeprefix("v") not in (version.replace("+", "-"), *_UNVERSIONED):  # a tag has no `+`
            fix = f"use the holdfast command of version {tag}, or update the image"
            yield check_results.warning(
                HOLDFAST, about, f"runs {tag}, this command is {version}; {state}", fix
            )
        elif one.replicas and not one.ready:
            fix = f"kubectl logs -n {one.namespace} deployment/{one.name}"
            yield check_results.warning(HOLDFAST, about, f"runs and is not ready: {state}", fix)
        else:
            shown = tag if tag not in _UNVERSIONED else f"{one.image}, which names no version"
            yield check_results.ok(HOLDFAST, about, f"runs {shown}; {state}")
    if not reading.holdfast:
        yield check_results.ok(HOLDFAST, "Holdfast", f"is not installed; this command is {version}")


def _tag(image: str) -> str:
    """Of an image; empty where a digest or nothing names the version."""
    name = image.partition(_DIGEST)[0].rpartition("/")[2]
    return name.partition(":")[2]


def dns(dns_ip: str | None) -> Iterator[CheckResult]:
    """`dns_ip`: of --cluster-dns-ip or of the Service."""
    about = f"Service/{rights_table.SYSTEM_NAMESPACE}/{rights_table.DNS_SERVICE}"
    if dns_ip:
        yield check_results.ok(DNS, about, f"nodes use {dns_ip}")
    else:
        words = "cannot be read; nodes use the address that their image computes from the CIDR of Services"
        yield check_results.info(DNS, about, words, "set --cluster-dns-ip if the DNS has another address")


def clock(reading: ClusterReading) -> Iterator[CheckResult]:
    if reading.ahead_s is None:
        yield check_results.info(
            CLOCK,
            "API server",
            "its clock cannot be read; ages are measured with the local clock",
            "allow create events",
        )
        return
    yield from clock_difference("API server", reading.ahead_s)


def clock_difference(server: str, ahead_s: int) -> Iterator[CheckResult]:
    if abs(ahead_s) <= WARN_FROM_S:
        yield check_results.ok(CLOCK, server, f"its clock differs by {abs(ahead_s)} s")
        return
    words = f"its clock is {abs(ahead_s)} s {'ahead of' if ahead_s > 0 else 'behind'} the local clock"
    yield check_results.warning(CLOCK, server, words, "synchronize the clocks, for example with chrony")


def _named(one: DeploymentView) -> str:
    return f"Deployment/{one.namespace}/{one.name}"
