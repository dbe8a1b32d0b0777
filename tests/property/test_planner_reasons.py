"""Plans in which exactly one constraint fails: the reason names it, for unplaced pods and for pods without a slot."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.core.scheduling.input.request import Packing, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.pods import PodTerm, RunTime, TopologySpread, Volumes
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Operator
from holdfast.model.requirements import of
from holdfast.model.reservations import Reservation, State
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator
from planner_builders import (
    ZONES,
    daemon,
    fake_types,
    is_in,
    node,
    pods,
    pool,
    request,
    reservation,
    running,
    selector,
    shape,
)

NOW_S = 1_000_000
SLOT = reservation("cr-1", "fake-it-8", ZONES[0])
PORT = HostPort(80)
TAINT = Taint("team", Effect.NO_SCHEDULE, "ml")
TYPES = requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=99)
RESERVED = is_in(names.CAPACITY_TYPE, "reserved")
APART = PodTerm(names.ZONE, selector(app="db"), ("default",))
NEAR = PodTerm(names.ZONE, selector(app="nowhere"), ("default",))
NEAR_HOST = PodTerm(names.HOSTNAME, selector(app="nowhere"), ("default",))
# The zone with the fewest pods is a zone without offerings.
SPREAD = TopologySpread(names.ZONE, 2, True, selector(app="db"))


class Case(NamedTuple):
    """A SolveRequest as arguments of the builders; each failing constraint changes some of them."""

    of_pod: dict[str, Any]
    of_pool: dict[str, Any]
    wanted: list[requirement.Requirement]
    types: list[InstanceType]
    more: dict[str, Any]


class FailingConstraint(NamedTuple):
    code: ReasonCode
    named: str  # what the text must name
    change: Callable[[Case], None]


def _with_offerings(case: Case, change: Callable[[Offering], Offering | None]) -> None:
    for i, one in enumerate(case.types):
        reservation_state = tuple(new for new in map(change, one.offerings) if new is not None)
        case.types[i] = dataclasses.replace(one, offerings=reservation_state)


def _pods_in_every_zone(case: Case, **more: Any) -> None:
    """A full node in each zone, with a pod for anti-affinity terms: its own, or those of other pods."""
    case.more["nodes"] = tuple(
        node(f"n-{zone}", cpu=0, zone=zone, pods=running(1, shape(0, 0, app="db", **more), zone))
        for zone in ZONES
    )


def _spread(case: Case) -> None:
    """Two pods in each zone but one, where nothing can be launched."""
    case.of_pod.pop("required_terms", None)  # it would exclude that zone
    case.of_pod.update(app="db", spreads=(SPREAD,))
    case.more["nodes"] = (
        node("n-far", cpu=0, zone="far"),
        *(node(f"n-{z}", cpu=0, zone=z, pods=running(2, shape(0, 0, app="db"), z)) for z in ZONES),
    )


def _volume_limits(case: Case) -> None:
    case.of_pod["volumes"] = Volumes(claims=(("ebs.csi.aws.com", "a"), ("ebs.csi.aws.com", "b")))
    case.types[:] = [dataclasses.replace(one, volume_limits=(("ebs.csi.aws.com", 1),)) for one in case.types]


def _no_reservation(case: Case) -> None:
    case.wanted.append(RESERVED)
    _with_offerings(case, lambda o: None if o.reservation_id else o)


def _daemon_port(case: Case) -> None:
    case.of_pod["host_ports"] = (PORT,)
    case.more["daemon_sets"] = (daemon(shape(0, 0, app="logs", host_ports=(PORT,))),)


def _anti_affinity(case: Case) -> None:
    _pods_in_every_zone(case)
    case.of_pod["anti_affinity"] = (APART,)


FAILING_CONSTRAINTS = [
    FailingConstraint(ReasonCode.TAINT, "team=ml:NoSchedule", lambda c: c.of_pool.update(taints=(TAINT,))),
    FailingConstraint(
        ReasonCode.REQUIREMENTS,
        "label team is not defined",
        lambda c: c.of_pod.update(node_selector=of(is_in("team", "ml"))),
    ),
    FailingConstraint(
        ReasonCode.REQUIREMENTS,
        "kubernetes.io/arch In [arm64]",
        lambda c: c.of_pod.update(node_selector=of(is_in(names.ARCH, "arm64"))),
    ),
    FailingConstraint(
        ReasonCode.REQUIREMENTS,
        "topology.kubernetes.io/zone In [z9]",
        lambda c: c.of_pod.update(node_selector=of(is_in(names.ZONE, "z9"))),
    ),
    FailingConstraint(
        ReasonCode.NO_RESERVATION_SELECTED,
        "selects no reservation",
        _no_reservation,
    ),
    FailingConstraint(
        ReasonCode.VOLUMES,
        "topology.kubernetes.io/zone In [z9]",
        lambda c: c.of_pod.update(volumes=Volumes(alternatives=(of(is_in(names.ZONE, "z9")),))),
    ),
    FailingConstraint(
        ReasonCode.VOLUMES,
        "kubernetes.io/hostname In [old-node]",
        lambda c: c.of_pod.update(volumes=Volumes(alternatives=(of(is_in(names.HOSTNAME, "old-node")),))),
    ),
    FailingConstraint(
        ReasonCode.VOLUMES, "volume limits of every instance type: ebs.csi.aws.com", _volume_limits
    ),
    FailingConstraint(ReasonCode.RESOURCES, "cpu 99", lambda c: c.of_pod.update(cpu_millis=99_000)),
    FailingConstraint(
        ReasonCode.RESOURCES, "memory 9000Gi", lambda c: c.of_pod.update(memory_mib=9000 * 1024)
    ),
    FailingConstraint(
        ReasonCode.NO_SUCH_RESOURCE,
        "extended resource nvidia.com/gpu",
        lambda c: c.of_pod.update(extra={"nvidia.com/gpu": 1}),
    ),
    FailingConstraint(ReasonCode.HOST_PORTS, "host port 80/TCP", _daemon_port),
    FailingConstraint(
        ReasonCode.OFFERINGS,
        "spot or on-demand is not available",
        lambda c: _with_offerings(c, lambda o: None if o.reservation_id else dataclasses.replace(o, count=0)),
    ),
    FailingConstraint(
        ReasonCode.LIMITS, "exceed limits: cpu 0", lambda c: c.of_pool.update(limits=resources.of({"cpu": 0}))
    ),
    FailingConstraint(
        ReasonCode.MIN_VALUES, "label node.kubernetes.io/instance-type", lambda c: c.wanted.append(TYPES)
    ),
    FailingConstraint(
        ReasonCode.TOPOLOGY,
        "topology constraint for pod affinity, key=topology.kubernetes.io/zone",
        lambda c: c.of_pod.update(affinity=(NEAR,)),
    ),
    FailingConstraint(
        ReasonCode.TOPOLOGY,
        "topology constraint for pod affinity, key=kubernetes.io/hostname",
        lambda c: c.of_pod.update(affinity=(NEAR_HOST,)),
    ),
    FailingConstraint(
        ReasonCode.TOPOLOGY,
        "topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone",
        _anti_affinity,
    ),
    FailingConstraint(
        ReasonCode.TOPOLOGY,
        "topology constraint for pod anti-affinity of other pods, key=topology.kubernetes.io/zone",
        lambda c: _pods_in_every_zone(
            c, anti_affinity=(PodTerm(names.ZONE, selector(app=c.of_pod["app"]), ("default",)),)
        ),
    ),
    FailingConstraint(
        ReasonCode.TOPOLOGY,
        "topology constraint for topology spread, key=topology.kubernetes.io/zone, maxSkew=2",
        _spread,
    ),
]
# Why a NodePool with only the reserved offering cannot launch a node for the pod.
RESERVATION_STATES: list[tuple[ReasonCode, str, dict[str, Any]]] = [
    (ReasonCode.WAITS_FOR_SLOT, "has no free slot", {"available": 0, "total": 3}),
    (ReasonCode.UNHEALTHY, "is cancelled", {"state": State.GONE, "state_name": "cancelled"}),
    (ReasonCode.UNHEALTHY, "is assessing", {"state": State.PENDING, "state_name": "assessing"}),
    (ReasonCode.NOT_STARTED, "starts at 1970-01-", {"start_s": NOW_S + 10**5}),
    (ReasonCode.DRAINING, "ends at ", {"end_s": NOW_S + 600, "drain_lead_s": 2400}),
    (ReasonCode.ENDS_TOO_SOON, "ends too soon", {"end_s": NOW_S + 5000, "drain_lead_s": 2400}),
]


FEATURES = (
    "alternative",
    "toleration",
    "port",
    "spread",
    "anti-affinity",
    "limits",
    "minValues",
    "DaemonSet",
)
CASES = st.tuples(
    st.sampled_from(["web", "api"]),
    st.integers(1, 7_000),  # thousandths of a core
    st.integers(1, 8_000),  # MiB
    st.sets(st.sampled_from(FEATURES)),
    st.sampled_from(list(Packing)),
)
Drawn = tuple[str, int, int, set[str], Packing]


def satisfiable_case(drawn: Drawn) -> Case:
    """A pod that can be placed, with constraints that are satisfied."""
    app, cpu, memory, features, packing = drawn
    host = names.HOSTNAME
    of_pod: dict[str, Any] = {"app": app, "cpu_millis": cpu, "memory_mib": memory}
    case = Case(of_pod, {}, [], list(fake_types(9, [SLOT])), {"packing": packing})
    if "alternative" in features:
        of_pod["required_terms"] = (of(is_in(names.ZONE, *ZONES)),)
    if "toleration" in features:
        of_pod["tolerations"] = (Toleration("spare", TolerationOperator.EXISTS),)
    if "port" in features:
        of_pod["host_ports"] = (HostPort(8080),)
    if "spread" in features:
        of_pod["spreads"] = (TopologySpread(host, 1, True, selector(app="other")),)
    if "anti-affinity" in features:
        of_pod["anti_affinity"] = (PodTerm(host, selector(app="other"), ("default",)),)
    if "limits" in features:
        case.of_pool["limits"] = resources.of({"cpu": 10**6})
    if "minValues" in features:
        case.wanted.append(requirement.of(names.ARCH, Operator.EXISTS, min_values=1))
    if "DaemonSet" in features:
        case.more["daemon_sets"] = (daemon(shape(100, 10, app="logs")),)
    return case


def solve_request(case: Case, reservation_state: Reservation = SLOT) -> SolveRequest:
    of_pool = pool("default", case.types, *case.wanted, **case.of_pool)
    more = {"taken_s": NOW_S} | case.more
    (pod,) = pods(1, shape(**case.of_pod))
    pending = (pod._replace(run_time=RunTime(3600)),)
    made = request([of_pool], pending, [reservation_state], **more)
    return dataclasses.replace(made, explain_slots=True)


def reasons_of(solve_input: SolveRequest) -> tuple[Reason, ...]:
    (unplaced,) = solve(solve_input).unplaced
    return unplaced.reasons


@settings(max_examples=300)
@given(CASES, st.integers(0, len(FAILING_CONSTRAINTS) - 1))
def test_reason_names_the_failing_constraint(drawn: Drawn, which: int) -> None:
    case, failing = satisfiable_case(drawn), FAILING_CONSTRAINTS[which]
    assert not solve(solve_request(case)).unplaced, "the pod must fit before the change"
    failing.change(case)
    (reason,) = reasons_of(solve_request(case))
    assert reason.code is failing.code, reason
    assert failing.named in reason.sentence
    assert reason.sentence.count("default") <= 1


@settings(max_examples=150)
@given(CASES, st.integers(0, len(RESERVATION_STATES) - 1))
def test_reason_names_the_state_of_the_reservation(drawn: Drawn, which: int) -> None:
    case, (code, named, more) = satisfiable_case(drawn), RESERVATION_STATES[which]
    case.wanted.append(RESERVED)
    assert not solve(solve_request(case)).unplaced, "the pod must fit before the change"
    reservation_state = dataclasses.replace(SLOT, **more)
    case.types[:] = fake_types(9, [reservation_state])
    (reason,) = reasons_of(solve_request(case, reservation_state))
    assert reason.code is code, reason
    assert named in reason.sentence
    assert reason.sentence.count("cr-1") == 1


@settings(max_examples=300)
@given(CASES, st.integers(-1, len(FAILING_CONSTRAINTS) - 1))
def test_no_reason_has_the_code_packing(drawn: Drawn, which: int) -> None:
    case = satisfiable_case(drawn)
    if which >= 0:
        FAILING_CONSTRAINTS[which].change(case)
    plan = solve(solve_request(case))
    reason_lists = [one.reasons for one in plan.unplaced] + [one.reasons for one in plan.not_reserved]
    assert ReasonCode.PACKING not in {reason.code for reasons in reason_lists for reason in reasons}
