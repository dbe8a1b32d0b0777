"""The ProvisioningRequests of a running cluster, updated as requests, templates and pods change.

The virtual pods of a live request are pending pods of the snapshot. Those that the planner placed are nominated, like
pending pods that kube-scheduler has not bound yet; a booking is a nomination that does not end. A pod that uses a request
is not planned: a virtual pod has its capacity. When it is bound, a virtual pod is removed.

If ProvisioningRequest is not among the watched kinds, because the API server does not serve it, nothing is indexed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.api.kueue import Workload
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodView
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.resources import Resources
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.results import Key
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.conversion import provisioning_requests
from holdfast.state.conversion.pods import PodConverter
from holdfast.state.conversion.provisioning_requests import Converted
from holdfast.state.conversion.run_times import Limit
from holdfast.state.conversion.snapshot import Pods


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """A request that waits for capacity or books it."""

    request: ProvisioningRequest
    converted: Converted
    left: tuple[PodView, ...]  # virtual pods that no pod has replaced
    gang: Gang
    has_quota: bool  # False: nothing is planned for it, and it holds no capacity

    @property
    def bound(self) -> int:
        """How many pods of the request were bound."""
        return len(self.converted.pods) - len(self.left)


class WatchedRequests:
    def __init__(
        self,
        caches: Caches,
        converter: PodConverter,
        nominations: Nominations,
        *,
        with_standard_classes: bool,
    ) -> None:
        """`with_standard_classes`: also those of Cluster Autoscaler's classes."""
        self._requests, self._templates = caches.find(ProvisioningRequest), caches.find(PodTemplate)
        self._workloads = caches.find(Workload)
        self._claims = caches.of(NodeClaim)
        self._converter = converter
        self._nominations = nominations
        self._with_standard_classes = with_standard_classes
        self._live: dict[Key, LiveRequest] = {}
        self._replaced: dict[
            str, dict[str, str]
        ] = {}  # by uid of the request: virtual pods by uid of the pod
        self._changed: dict[Key, None] = {}
        self._merged: tuple[Pods, Pods] | None = None  # the last pods without and with virtual pods
        self._context = converter.context
        if self._requests is not None:
            if self._workloads is not None:
                self._of_workload = self._requests.index(_workload_names)
                self._workloads.subscribe(self._on_workload)
            self._pods = caches.of(Pod).index(provisioning_requests.consumed_by)
            caches.of(Pod).subscribe(self._on_pod)
            self._requests.subscribe(self._on_request)
            assert self._templates is not None, "templates are watched with requests"
            self._templates.subscribe(self._on_template)

    def live(self) -> tuple[LiveRequest, ...]:
        """The requests that Holdfast answers and that are not ended, sorted by name."""
        if self._requests is None:
            return ()
        if self._converter.context is not self._context:  # a template may need another namespace or volume
            self._context = self._converter.context
            self._changed |= dict.fromkeys(self._live)
        if self._changed:
            for key in self._changed:
                self._read(key)
            self._changed = {}
            self._live = {key: self._live[key] for key in sorted(self._live)}
            self._merged = None
        return tuple(self._live.values())

    def get(self, key: Key) -> LiveRequest | None:
        """A request that Holdfast answers and that is not ended."""
        self.live()
        return self._live.get(key)

    def limits(self, request: ProvisioningRequest) -> tuple[Limit, ...]:
        """The limits of the run time of its pods."""
        namespace = request.metadata.namespace
        return provisioning_requests.limits(
            request, lambda name: self._template(namespace, name), self.workload_of(request)
        )

    def with_virtual(self, pods: Pods) -> Pods:
        """The pods with the virtual pods, and without the pods that use a live request. The same object while nothing
        changes."""
        live = self.live()
        if not live:
            return pods
        if self._merged is None or not _are_same(self._merged[0], pods):
            self._merged = pods, self._merge(pods, live)
        return self._merged[1]

    @property
    def uids(self) -> frozenset[str]:
        """Those of the virtual pods of live requests."""
        return frozenset(pod.uid for one in self._planned() for pod in one.left)

    @property
    def is_one_incomplete(self) -> bool:
        """Whether the pods of a request need objects that do not exist yet."""
        return any(one.converted.may_end for one in self.live())

    def names_of(self, uids: Iterable[str]) -> list[str]:
        """The requests of these virtual pods."""
        of = {one.request.metadata.uid: one.gang for one in self.live()}
        found = {uid.rpartition("/")[0] for uid in uids}
        return [f"{of[uid].source} {of[uid].name}" for uid in sorted(found & of.keys())]

    def _planned(self) -> tuple[LiveRequest, ...]:
        return tuple(one for one in self.live() if one.has_quota)

    # --- Conversion -----------------------------------------------------------------------------------

    def _merge(self, pods: Pods, live: Sequence[LiveRequest]) -> Pods:
        waiting = {
            pod.metadata.uid: one
            for one in live
            for pod in self._pods.get(one.gang.name)
            if not pod.spec.node_name
        }
        planned = self._planned()
        virtual = [pod for one in planned for pod in one.left]
        pending = [pod for pod in pods.pending if pod.uid not in waiting]
        rejected = [_waits(pod, waiting[pod.uid]) for pod in pods.pending if pod.uid in waiting]
        return replace(
            pods,
            pending=tuple(sorted((*pending, *virtual), key=lambda pod: pod.full_name)),
            rejected=(*pods.rejected, *rejected),
            gangs=tuple(sorted((*pods.gangs, *(one.gang for one in planned)), key=lambda gang: gang.key)),
        )

    def _read(self, key: Key) -> None:
        assert self._requests is not None
        self._live.pop(key, None)
        request = self._requests.get(key)
        if request is None or not provisioning_requests.is_live(request) or not self.is_ours(request):
            return
        workload = self.workload_of(request)
        converted = provisioning_requests.virtual_pods(
            request, lambda name: self._template(key[0], name), workload, self._converter
        )
        is_new = request.metadata.uid not in self._replaced
        left = tuple(self._left(request, converted.pods)) if converted.pods else ()
        if is_new and provisioning_requests.is_provisioned(request):
            for uid, node in provisioning_requests.booked_nodes(request, left):
                self._nominations.nominate((uid,), node, ready=True)
        gang = provisioning_requests.gang(request, left, workload)
        has_quota = provisioning_requests.has_quota(workload)
        self._live[key] = LiveRequest(request, converted, left, gang, has_quota)

    def is_ours(self, request: ProvisioningRequest) -> bool:
        """Whether Holdfast answers the request."""
        return provisioning_requests.is_ours(request, with_standard_classes=self._with_standard_classes)

    def _template(self, namespace: str, name: str) -> PodTemplate | None:
        assert self._templates is not None
        return self._templates.get((namespace, name))

    def workload_of(self, request: ProvisioningRequest) -> Workload | None:
        """The Workload of Kueue that the request is for."""
        for owner in request.metadata.owner_references:
            if owner.kind == Workload.kind and self._workloads is not None:
                found = self._workloads.get((request.metadata.namespace, owner.name))
                return found if found is not None and found.metadata.uid == owner.uid else None
        return None

    def _left(self, request: ProvisioningRequest, virtual: Sequence[PodView]) -> Iterator[PodView]:
        """The virtual pods without those that bound pods replaced. A pod replaces a virtual pod of its size, if there is
        one, on its own node, if there is one. It stays replaced when the pod ends."""
        meta = request.metadata
        replaced = self._replaced.setdefault(meta.uid, {})
        bound = [
            pod  # an older pod is of an earlier request of this name
            for pod in self._pods.get(f"{meta.namespace}/{meta.name}")
            if pod.spec.node_name and pod.metadata.uid not in replaced and not _is_older(pod, request)
        ]
        if bound:
            taken = set(replaced.values())
            free = _Free((one for one in virtual if one.uid not in taken), self._places_of)
            for pod in bound:
                uid = free.take(self._converter.convert(pod).shape.requests, pod.spec.node_name or "")
                if uid is None:
                    break
                replaced[pod.metadata.uid] = uid
                self._nominations.remove(uid)
        taken = set(replaced.values())
        return (one for one in virtual if one.uid not in taken)

    def _places_of(self, virtual: str) -> Iterator[str]:
        """The names of the node on which a virtual pod has its capacity."""
        target = self._nominations.target_of(virtual)
        if target is not None:
            yield target
            claim = self._claims.get(("", target))
            if claim is not None and claim.status.node_name not in (None, "", target):
                yield claim.status.node_name or ""

    # --- Changes --------------------------------------------------------------------------------------

    def _on_request(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        for request in (before, after):
            if request is not None:
                self._changed[key_of(request)] = None
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._replaced.pop(before.metadata.uid, None)

    def _on_template(self, before: PodTemplate | None, after: PodTemplate | None) -> None:
        assert self._requests is not None
        template = after or before
        assert template is not None
        meta = template.metadata
        self._changed |= dict.fromkeys(
            key_of(request)
            for request in self._requests
            if request.metadata.namespace == meta.namespace
            and any(one.pod_template_ref.name == meta.name for one in request.spec.pod_sets)
        )

    def _on_workload(self, before: Workload | None, after: Workload | None) -> None:
        if before is not None and after is not None and _of_interest(before) == _of_interest(after):
            return
        for workload in (before, after):
            if workload is not None:
                name = f"{workload.metadata.namespace}/{workload.metadata.name}"
                self._changed |= dict.fromkeys(key_of(request) for request in self._of_workload.get(name))

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                for name in provisioning_requests.consumed_by(pod):
                    namespace, _, own = name.partition("/")
                    self._changed[namespace, own] = None


class _Free:
    """Virtual pods that no pod has replaced, by what decides which of them a pod replaces. A request may have thousands,
    and after a restart all of its pods are seen at once."""

    def __init__(self, virtual: Iterable[PodView], places_of: Callable[[str], Iterable[str]]) -> None:
        self._groups: dict[tuple[Resources | None, str | None], deque[str]] = {}
        self._taken: set[str] = set()
        for one in virtual:
            size = one.shape.requests
            for place in (None, *places_of(one.uid)):
                self._groups.setdefault((size, place), deque()).append(one.uid)
                self._groups.setdefault((None, place), deque()).append(one.uid)

    def take(self, size: Resources, node: str) -> str | None:
        """One of this size, if there is one, on this node, if there is one. None: none is left."""
        for key in ((size, node), (size, None), (None, node), (None, None)):
            group = self._groups.get(key)
            while group:
                uid = group.popleft()
                if uid not in self._taken:
                    self._taken.add(uid)
                    return uid
        return None


def _workload_names(request: ProvisioningRequest) -> tuple[str, ...]:
    """For an index."""
    meta = request.metadata
    return tuple(
        f"{meta.namespace}/{owner.name}" for owner in meta.owner_references if owner.kind == Workload.kind
    )


def _of_interest(workload: Workload) -> object:
    return workload.metadata.uid, workload.spec, provisioning_requests.has_quota(workload)


def _is_older(pod: Pod, request: ProvisioningRequest) -> bool:
    created, began = pod.metadata.creation_timestamp, request.metadata.creation_timestamp
    return created is not None and began is not None and created < began


def _are_same(one: Pods, other: Pods) -> bool:
    return one.pending is other.pending and one.rejected is other.rejected and one.gangs is other.gangs


def _waits(pod: PodView, one: LiveRequest) -> Unplaced:
    is_booked = provisioning_requests.is_provisioned(one.request)
    text = (
        "the capacity of the pod is booked"
        if is_booked
        else "the pod uses this request, which waits for capacity"
    )
    return Unplaced(pod.uid, (Reason(ReasonCode.USES_REQUEST, text, (one.gang.name,), one.gang.source),))
