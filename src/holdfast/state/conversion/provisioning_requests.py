"""Converts ProvisioningRequests into gangs of virtual pods.

A virtual pod is a pod of a template that does not exist yet. It is planned like a pending pod, and then keeps its capacity
on its node until a pod of the request is bound or the request ends. A request is identified by its uid: Kueue deletes
requests and creates others of the same name (PR-8).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.api import conditions
from holdfast.api.conditions import FALSE
from holdfast.api.kueue import Workload
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.api.pods import Pod
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.model import requirement, requirements
from holdfast.model.gangs import PROVISIONING_REQUEST, Gang
from holdfast.model.pods import PodShape, PodView, RunTime
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.state.conversion import pods, run_times, times
from holdfast.state.conversion.pods import PodConverter
from holdfast.state.conversion.run_times import Limit

CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
ATOMIC: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
OWN: Final = "atomic.holdfast.dev"
ACCEPTED, PROVISIONED, FAILED, BOOKING_EXPIRED = "Accepted", "Provisioned", "Failed", "BookingExpired"
PODS_MAX: Final = 10_000  # of a request: each of them costs time in every plan
_INSTANCE: Final = "holdfast"
_QUOTA_RESERVED: Final = "QuotaReserved"
_CONSUMES: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
_PROCESSOR_INSTANCE, _RUN_TIME, _TOGETHER = "processorInstance", "maxRunDurationSeconds", "together"
_NO_RETRY, _VALID_FOR = "noRetry", "ValidUntilSeconds"
_DIGITS_MAX: Final = 10
# Which node of the snapshot has the label, and no NodeClaim before its node is registered.
_ON_EXISTING_NODES: Final = requirements.of(requirement.of(names.HOSTNAME, Operator.EXISTS))


@dataclass(frozen=True, slots=True)
class Converted:
    """The pods of a request, or why there are none."""

    pods: tuple[PodView, ...] = ()
    problems: tuple[Reason, ...] = ()
    may_end: bool = False  # the problems are about other objects, which may be created after the request
    missing: tuple[str, ...] = ()  # templates that do not exist


def is_ours(request: ProvisioningRequest, *, with_standard_classes: bool) -> bool:
    """Whether Holdfast answers a request. Its own class is always its own; the classes of Cluster Autoscaler only with the
    setting, and those for another instance never (PR-12, PR-13)."""
    name = request.spec.provisioning_class_name
    if name == OWN:
        return True
    instance = request.spec.parameters.get(_PROCESSOR_INSTANCE, _INSTANCE)
    return with_standard_classes and name in (CHECK_CAPACITY, ATOMIC) and instance == _INSTANCE


def is_live(request: ProvisioningRequest) -> bool:
    """Whether the request waits for capacity or books it."""
    found = request.status.conditions
    return request.metadata.deletion_timestamp is None and not (
        conditions.holds(found, FAILED) or conditions.holds(found, BOOKING_EXPIRED)
    )


def is_provisioned(request: ProvisioningRequest) -> bool:
    return conditions.holds(request.status.conditions, PROVISIONED)


def launches(request: ProvisioningRequest) -> bool:
    """Whether nodes may be launched for the request. Its capacity is on existing nodes once it is provisioned."""
    return request.spec.provisioning_class_name != CHECK_CAPACITY and not is_provisioned(request)


def has_quota(workload: Workload | None) -> bool:
    """Whether the Workload of a request may use its capacity. Kueue creates a request for a Workload with quota, and does
    not change the request when the Workload is evicted (PR-26, PR-35). A request of another owner needs no quota."""
    quota = conditions.find(workload.status.conditions, _QUOTA_RESERVED) if workload is not None else None
    return quota is None or quota.status != FALSE


def retries(request: ProvisioningRequest) -> bool:
    """Whether the request waits for capacity (PR-14)."""
    only_checks = request.spec.provisioning_class_name == CHECK_CAPACITY
    return not only_checks or request.spec.parameters.get(_NO_RETRY) != "true"


def valid_for_s(request: ProvisioningRequest) -> int | None:
    """How long the request waits for capacity, from its creation (PR-16); None: not stated."""
    return _number(request.spec.parameters.get(_VALID_FOR))


def consumed_by(pod: Pod) -> tuple[str, ...]:
    """The request whose capacity a pod uses, with its namespace (PR-20); for an index."""
    annotations = pod.metadata.annotations
    if annotations:
        for key in _CONSUMES:
            if key in annotations:
                return (f"{pod.metadata.namespace}/{annotations[key]}",)
    return ()


def gang(request: ProvisioningRequest, left: Sequence[PodView], workload: Workload | None) -> Gang:
    """The gang of the virtual pods that no pod has replaced yet."""
    meta = request.metadata
    priority = workload.spec.priority if workload is not None else None
    return Gang(
        key=f"{PROVISIONING_REQUEST}/{meta.uid}",
        name=f"{meta.namespace}/{meta.name}",
        source=PROVISIONING_REQUEST,
        least=len(left),
        unbound=frozenset(pod.uid for pod in left),
        priority=max((pod.priority for pod in left), default=0) if priority is None else priority,
        since_s=times.epoch_s_or_none(meta.creation_timestamp) or 0,
        together=request.spec.parameters.get(_TOGETHER) or None,
        booked=is_provisioned(request),
    )


def virtual_pods(
    request: ProvisioningRequest,
    template_of: Callable[[str], PodTemplate | None],
    workload: Workload | None,
    converter: PodConverter,
) -> Converted:
    wanted = request.spec.pod_sets
    count = sum(one.count for one in wanted)
    if count > PODS_MAX:
        text = f"the request has {count} pods; a request of at most {PODS_MAX} can be planned"
        return Converted(problems=(Reason(ReasonCode.INVALID, text),))
    templates = {one.pod_template_ref.name: template_of(one.pod_template_ref.name) for one in wanted}
    missing = tuple(name for name, template in templates.items() if template is None)
    if missing:
        return Converted(missing=missing)
    views: list[PodView] = []
    problems: dict[Reason, None] = {}
    may_end = True
    for number, one in enumerate(wanted):
        template = templates[one.pod_template_ref.name]
        assert template is not None, "none of the templates is missing"
        pod = _pod(request, template)
        converted = converter.convert_virtual(pod)
        wrong = run_times.problem(pod)
        may_end = may_end and wrong is None and not (converted.problems and converted.self_contained)
        problems |= dict.fromkeys((*converted.problems, *(() if wrong is None else (wrong,))))
        run_time = _run_time(pod, request, workload)
        view = pods.view(pod, _shape(converted.shape, request), run_time, now_s=0)
        prefix = f"{request.metadata.uid}/{number}-"
        views += [
            view._replace(uid=f"{prefix}{index}", name=f"{view.name}-{number}-{index}")
            for index in range(one.count)
        ]
    return Converted((), tuple(problems), may_end) if problems else Converted(tuple(views))


def pod_set_of(uid: str) -> int:
    """The number of the podSet of a virtual pod, by its uid."""
    return int(uid.rpartition("/")[2].partition("-")[0])


def limits(
    request: ProvisioningRequest,
    template_of: Callable[[str], PodTemplate | None],
    workload: Workload | None,
) -> tuple[Limit, ...]:
    """The limits of the run time of the pods of a request, each of them once."""
    templates = {one.pod_template_ref.name: None for one in request.spec.pod_sets}
    found = [template_of(name) for name in templates]
    pods_: list[Pod | None] = [_pod(request, template) for template in found if template is not None]
    return tuple(dict.fromkeys(one for pod in pods_ or [None] for one in _limits(pod, request, workload)))


def _pod(request: ProvisioningRequest, template: PodTemplate) -> Pod:
    meta, given = request.metadata, template.template
    owner = OwnerReference(
        api_version=request.api_version, kind=request.kind, name=meta.name, uid=meta.uid, controller=True
    )
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels=given.metadata.labels,
            annotations=given.metadata.annotations,
            creation_timestamp=meta.creation_timestamp,
            owner_references=(owner,),
        ),
        spec=given.spec,
    )


def _shape(shape: PodShape, request: ProvisioningRequest) -> PodShape:
    if launches(request):
        return shape
    terms: tuple[Requirements, ...] = shape.required_terms or (NO_REQUIREMENTS,)
    return shape._replace(required_terms=tuple(one.union(_ON_EXISTING_NODES) for one in terms))


def _run_time(pod: Pod, request: ProvisioningRequest, workload: Workload | None) -> RunTime | None:
    return run_times.least(_limits(pod, request, workload))


def _limits(pod: Pod | None, request: ProvisioningRequest, workload: Workload | None) -> Iterator[Limit]:
    yield from run_times.limits(pod, workload=workload)
    stated_s = _number(request.spec.parameters.get(_RUN_TIME))
    if stated_s is not None:
        yield Limit(f"parameter {_RUN_TIME} of the ProvisioningRequest", stated_s)


def _number(written: str | None) -> int | None:
    """A positive number of a parameter; Holdfast ignores other values, as Cluster Autoscaler does."""
    if written is None or not written.isdecimal() or len(written) > _DIGITS_MAX:
        return None
    return int(written) or None


# --- The nodes of a booking ---------------------------------------------------------------------------

_DETAIL: Final = "nodes"
_RESERVATION: Final = "reservation"
_DETAIL_MAX: Final = 32_768  # characters of one detail (PR-6)


def details(nodes: Mapping[str, str], reservation_id: str | None = None) -> dict[str, str]:
    """Where the virtual pods of a request have their capacity, for its status. `nodes`: by uid of the virtual pod. A new
    process reads it back. A detail that would be too long is cut: the capacity of the other pods is planned again.
    `reservation_id`: of all of these nodes. Kueue can write it into the node selectors of the pods (PR-33)."""
    found: dict[int, dict[str, int]] = {}
    for uid, node in nodes.items():
        of_set = found.setdefault(pod_set_of(uid), {})
        of_set[node] = of_set.get(node, 0) + 1
    of_sets = {
        f"{_DETAIL}-{number}": _cut([f"{node}={count}" for node, count in sorted(of_set.items())])
        for number, of_set in sorted(found.items())
    }
    return of_sets | ({_RESERVATION: reservation_id} if reservation_id else {})


def booked_nodes(request: ProvisioningRequest, left: Sequence[PodView]) -> Iterator[tuple[str, str]]:
    """Virtual pods, and the node that each of them has capacity on, by the details of the request."""
    known = request.status.provisioning_class_details
    free: dict[int, Iterator[str]] = {}
    for pod in left:
        number = pod_set_of(pod.uid)
        if number not in free:
            free[number] = _listed(known.get(f"{_DETAIL}-{number}", ""))
        node = next(free[number], None)
        if node is not None:
            yield pod.uid, node


def _cut(entries: Sequence[str]) -> str:
    text, length = [], 0
    for one in entries:
        length += len(one) + 1
        if length > _DETAIL_MAX:
            break
        text.append(one)
    return ",".join(text)


def _listed(written: str) -> Iterator[str]:
    for entry in written.split(","):
        node, _, count = entry.partition("=")
        if node and count.isdecimal() and len(count) <= _DIGITS_MAX:
            yield from (node for _ in range(min(int(count), PODS_MAX)))
