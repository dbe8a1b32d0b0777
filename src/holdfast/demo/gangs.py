"""ProvisioningRequests and PodGroups as the screen shows them. `status` reads them with the rest."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.api import conditions
from holdfast.api.meta import Object
from holdfast.api.pods import Pod
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.scheduling import PodGroup
from holdfast.core.provisioning_answers import FAILED, PROVISIONED
from holdfast.model import wording
from holdfast.runtime.cache import Caches
from holdfast.state.conversion import provisioning_requests


@dataclass(frozen=True, slots=True)
class GangStatus:
    """Pods that start together: those of a ProvisioningRequest, or of a PodGroup."""

    kind: str
    name: str
    pods: int
    running: int
    state: str
    run_time_s: int | None = None  # at most
    message: str = ""  # why it waits

    @property
    def is_request(self) -> bool:
        return self.kind == ProvisioningRequest.kind


def read(caches: Caches, pods: Sequence[Pod]) -> Iterator[GangStatus]:
    """Requests, then PodGroups, each by age."""
    running = Counter(
        name for pod in pods if is_ready(pod) for name in provisioning_requests.consumed_by(pod)
    )
    for request in sorted(caches.find(ProvisioningRequest) or (), key=_age):
        yield _request(request, running[f"{request.metadata.namespace}/{request.metadata.name}"])
    members: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.scheduling_group is not None:
            members[pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name].append(pod)
    for group in sorted(caches.find(PodGroup) or (), key=_age):
        yield from _pod_group(group, members[group.metadata.namespace, group.metadata.name])


def _request(request: ProvisioningRequest, running: int) -> GangStatus:
    found = request.status.conditions
    waits = conditions.find(found, FAILED) or conditions.find(found, PROVISIONED)
    is_provisioned = conditions.holds(found, PROVISIONED)
    run_time = request.spec.parameters.get("maxRunDurationSeconds", "")
    message = "" if waits is None or (is_provisioned and waits.type == PROVISIONED) else waits.message or ""
    own = f"{ProvisioningRequest.kind} {request.metadata.namespace}/{request.metadata.name}: "
    return GangStatus(
        kind=request.kind,
        name=request.metadata.name,
        pods=sum(pod_set.count for pod_set in request.spec.pod_sets),
        running=running,
        state=FAILED if conditions.holds(found, FAILED) else f"{PROVISIONED}={is_provisioned}",
        run_time_s=int(run_time) if run_time.isdecimal() else None,
        message=message.removeprefix(own).removesuffix("."),
    )


def _pod_group(group: PodGroup, members: Sequence[Pod]) -> Iterator[GangStatus]:
    gang = group.spec.scheduling_policy.gang
    if gang is None:
        return
    bound, least = sum(bool(pod.spec.node_name) for pod in members), gang.min_count
    message = ""
    if len(members) < least:
        exist = wording.some(len(members))
        message = (
            "lacks the pod that it needs" if least == 1 else f"has {exist} of the {least} pods that it needs"
        )
    elif bound < least:
        message = (
            f"{wording.some(bound)} of {wording.count(least, 'pod')} {wording.are(bound)} bound; kube-scheduler binds all of "
            "them together"
        )
    yield GangStatus(
        kind=group.kind,
        name=group.metadata.name,
        pods=least,
        running=sum(map(is_ready, members)),
        state="scheduled" if bound >= least else "waits",
        message=message,
    )


def is_active(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    ready = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    return ready is not None and ready.status == "True"


def _age(one: Object) -> tuple[str, str]:
    return str(one.metadata.creation_timestamp), one.metadata.name
