"""The explanations of PodGroups, ProvisioningRequests and Jobs, from values: every state, and what is left out."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

import objects
from holdfast.api.conditions import Condition
from holdfast.api.meta import ObjectMeta
from holdfast.api.provisioning import (
    PodSet,
    PodTemplateReference,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from holdfast.api.reports import Explanation, Fact, NodeRow, ReservationRow
from holdfast.api.workloads import JobTimes, JobTimesSpec
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.explain import gangs, inventory, jobs, requests
from holdfast.explain.gangs import GangInput, GroupInput, NodeUse
from holdfast.explain.jobs import JobInput
from holdfast.explain.pods import PodInput
from holdfast.explain.requests import PodSetUse, RequestInput
from holdfast.model.gangs import POD_GROUP, PROVISIONING_REQUEST, Gang
from holdfast.model.reasons import BLOCK, NODE_POOL, RESERVATION, Reason, ReasonCode
from holdfast.state.conversion.run_times import Limit

CREATED: Final = datetime(2026, 11, 15, 10, tzinfo=UTC)
NOW_S: Final = int(CREATED.timestamp()) + 3600
FULL: Final = Reason(ReasonCode.FULL, "has no free slot", ("cr-1", "cr-2"), RESERVATION)
DRAINS: Final = Reason(ReasonCode.ENDS_TOO_SOON, "ends too soon: its nodes are drained", ("cb-1",), BLOCK)


def gang(least: int | None = 3, bound: int = 0, unbound: int = 0, **more: Any) -> Gang:
    fields = {"key": "PodGroup/default/train", "name": "default/train", "source": POD_GROUP} | more
    return Gang(
        least=least,
        bound=frozenset(f"bound-{number}" for number in range(bound)),
        unbound=frozenset(f"unbound-{number}" for number in range(unbound)),
        **fields,
    )


def group(of: Gang, *, known: dict[str, Any] | None = None, **more: Any) -> Explanation:
    one = GangInput(gang=of, now_s=NOW_S, **known or {})
    return gangs.explain(GroupInput(known=one, namespace="default", name="train", **more))


def row(id_: str, **fields: Any) -> ReservationRow:
    written: dict[str, Any] = {"kind": "default", "instance_type": "m5.large", "zone": "z", "owner": "1"}
    written |= {"state": "active", "window": "open", "total": 4, "free": 1, "held": 3}
    return ReservationRow(id=id_, **written | fields)


# --- PodGroups ------------------------------------------------------------------------------------------


def test_podgroup_waits_until_its_members_have_nodes_and_runs_when_they_are_bound() -> None:
    assert group(gang(3, 0, 3), known={"reasons": (FULL,)}).what == (
        "The PodGroup waits: it has 3 pods, 0 with a node, and needs 3."
    )
    assert group(gang(3, 3, 0), bound=1).what == (
        "The PodGroup waits for nodes: it needs 3 pods; 1 is on a node, and 2 should schedule on nodes."
    )
    assert (
        group(gang(3, 4, 0), bound=4).what == "The PodGroup runs: 4 pods of it are on nodes, and it needs 3."
    )


def test_podgroup_without_pods_names_how_many_it_needs() -> None:
    answer = group(gang(2))
    assert answer.why == ("PodGroup default/train: has none of the 2 pods that it needs.",)
    assert answer.changes == ("The missing pods of PodGroup default/train, which its owner creates.",)


def test_podgroup_whose_pods_are_not_unschedulable_yet_is_incomplete() -> None:
    text = "only 2 of the 3 pods that it needs have a node or can be planned now"
    assert group(gang(3, 0, 3), ready=2).why == (f"PodGroup default/train: {text}.",)
    assert group(gang(3, 0, 3), ready=3).why == ("The next plan includes its pods.",)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (group(gang(1, 0, 1), ready=1), "The PodGroup waits: it has 1 pod, 0 with a node, and needs 1."),
        (
            group(gang(1, 1, 0), bound=0),
            "The PodGroup waits for nodes: it needs 1 pod; none are on nodes, and 1 should schedule on a node.",
        ),
        (group(gang(1, 1, 0), bound=1), "The PodGroup runs: 1 pod of it is on a node, and it needs 1."),
        (group(gang(None, 0, 1), exists=False), "1 pod names a PodGroup that does not exist."),
    ],
)
def test_texts_about_one_pod(answer: Explanation, what: str) -> None:
    assert answer.what == what


def test_basic_podgroup_is_no_gang() -> None:
    answer = group(gang(0, 1, 1), bound=1, is_gang=False)
    assert answer.what == "The PodGroup is no gang, and 1 pod of it is on a node."
    assert answer.facts[0] == Fact(name="Pods", value="2 exist, 1 on a node")


def test_time_of_a_running_podgroup_is_that_of_the_last_pod_that_it_needed() -> None:
    times: dict[str, Any] = {"created_s": 1, "waiting_since_s": 2, "bound_since_s": 3}
    assert group(gang(1, 1, 0), bound=1, **times).since == 3
    assert group(gang(2, 1, 1), bound=1, known={"reasons": (FULL,)}, **times).since == 2
    assert group(gang(2), created_s=1).since == 1


# --- Parts ----------------------------------------------------------------------------------------------


def test_reservations_have_their_slots_their_dates_and_the_reason() -> None:
    rows = (row("cr-1"), row("cb-1", kind="capacity-block", drains=NOW_S + 60, ends=NOW_S + 120))
    pool = Reason(ReasonCode.LIMITS, "exceeds limits", ("general",), NODE_POOL)
    other = Reason(ReasonCode.WRONG_ZONE, "is in another zone", ("cr-9",), RESERVATION)
    known = {"reasons": (FULL, DRAINS, pool), "not_reserved": (FULL, other), "reservations": rows}
    counts = "1 of 4 slots free now: 0 used here, 0 by another cluster or account, 3 held, 0 being released"
    found = group(gang(3, 0, 3), known=known).considered
    assert [(one.subject, one.text) for one in found] == [
        ("reservation cr-1", f"has no free slot; {counts}"),
        ("reservation cr-2", "has no free slot"),
        ("block cb-1", f"ends too soon: its nodes are drained; {counts}; it ends at 11:02 UTC"),
        ("reservation cr-9", "is in another zone"),
    ]


def test_reservation_that_starts_later_has_its_start() -> None:
    found = gangs.slots(row("cr-1", window="upcoming", starts=NOW_S + 60, drains=NOW_S + 120), NOW_S)
    assert found.endswith("; it starts at 11:01 UTC; its nodes are drained from 11:02 UTC")


def test_rank_is_the_place_among_the_gangs_that_wait() -> None:
    own = gang(3, 0, 3, priority=5, since_s=NOW_S)
    ahead = [gang(3, 0, 3, key=str(number), name=f"ns/{number}") for number in range(4)]
    facts = {
        one.name: one.value for one in gangs.facts(GangInput(gang=own, now_s=NOW_S, waiting=(*ahead, own)))
    }
    assert facts["Rank"] == (
        "5 of 5 waiting gangs, with priority 5, since 2026-11-15T11:00:00Z; "
        "after PodGroup ns/0, PodGroup ns/1, PodGroup ns/2 and 1 more"
    )
    assert "Rank" not in {one.name for one in gangs.facts(GangInput(gang=own, now_s=NOW_S, waiting=ahead))}


def test_facts_have_nodes_with_their_pods_and_the_reservations_that_they_use() -> None:
    ready = NodeRow(name="n1", node_claim="c1", reservation="cr-1", state=inventory.READY)
    starting = NodeRow(name="c2", node_claim="c2", reservation="cr-1", state=inventory.STARTING)
    known = GangInput(
        gang=gang(3, 3, together="topology.kubernetes.io/zone"),
        now_s=NOW_S,
        nodes=(NodeUse(ready, None, 2), NodeUse(starting, None, 1)),
        reservations=(row("cr-1", drains=NOW_S + 60),),
    )
    facts = {one.name: one.value for one in gangs.facts(known)}
    assert facts["Together"] == "all pods need the same topology.kubernetes.io/zone"
    assert facts["Nodes"] == "n1 (2 pods), c2 (1 pod, starting)"
    assert facts["In cr-1"].startswith("3 pods; 1 of 4 slots free now")
    assert facts["In cr-1"].endswith("its nodes are drained from 11:01 UTC")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((), "not stated, so blocks that end soon are used too"),
        ((Limit("a", 60), Limit("b", 30)), "at most 30 seconds (b)"),
        ((Limit("a", end_s=NOW_S + 60), Limit("b", end_s=NOW_S)), "until 11:00 UTC (b)"),
        ((Limit("a", 60), Limit("b", end_s=NOW_S)), "at most 1 minute (a), until 11:00 UTC (b)"),
    ],
)
def test_run_time_names_the_limits_that_count(limits: tuple[Limit, ...], expected: str) -> None:
    assert gangs.run_time(limits, NOW_S) == expected


# --- ProvisioningRequests -------------------------------------------------------------------------------

OF_REQUEST: Final[dict[str, Any]] = {"key": "1", "source": PROVISIONING_REQUEST}


def condition(
    type_: str, status: str = "True", reason: str = "Because", message: str = "A cause."
) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=CREATED)


def provisioning_request(
    *conditions: Condition, deleted: bool = False, **parameters: str
) -> ProvisioningRequest:
    sets = (PodSet(pod_template_ref=PodTemplateReference(name="train"), count=3),)
    deleted_at = CREATED if deleted else None
    return ProvisioningRequest(
        metadata=ObjectMeta(
            name="train", namespace="default", creation_timestamp=CREATED, deletion_timestamp=deleted_at
        ),
        spec=ProvisioningRequestSpec(
            pod_sets=sets,
            provisioning_class_name="check-capacity.autoscaling.x-k8s.io",
            parameters=parameters,
        ),
        status=ProvisioningRequestStatus(conditions=conditions),
    )


def explained(
    request: ProvisioningRequest, of: Gang | None = None, reasons: tuple[Reason, ...] = (), **more: Any
) -> Explanation:
    known = GangInput(gang=of, now_s=NOW_S, reasons=reasons) if of is not None else None
    return requests.explain(RequestInput(known=known, request=request, now_s=NOW_S, **more))


def test_request_that_waits_has_the_reasons_of_the_last_plan_or_else_its_message() -> None:
    waits, of = provisioning_request(condition("Provisioned", "False")), gang(3, 0, 3, **OF_REQUEST)
    assert explained(waits, of, (FULL,)).why == ("Reservations cr-1, cr-2: each has no free slot.",)
    assert explained(waits, of).why == ("A cause.",)
    assert explained(provisioning_request(), of).why == ("The next plan includes its pods.",)


@pytest.mark.parametrize(
    ("parameter", "until"), [({}, "2026-11-22 10:00"), ({"ValidUntilSeconds": "7200"}, "12:00")]
)
def test_request_that_waits_has_the_time_until_which_it_waits(parameter: dict[str, Any], until: str) -> None:
    answer = explained(provisioning_request(**parameter), gang(3, 0, 3, **OF_REQUEST))
    assert answer.next.startswith(f"The request waits until {until} UTC at the latest. ")


def test_request_with_nodes_waits_for_them() -> None:
    answer = explained(provisioning_request(), gang(3, 3, 0, **OF_REQUEST))
    assert answer.what == "The ProvisioningRequest waits for nodes that are being launched for its 3 pods."


def test_booking_has_its_end() -> None:
    booked = provisioning_request(condition("Provisioned"))
    answer = explained(booked, gang(3, 3, 0, booked=True, **OF_REQUEST))
    assert answer.what.endswith("the capacity for its 3 pods is booked until 10:10 UTC.")
    assert (answer.since, answer.why) == (NOW_S - 3600, ("A cause.",))


@pytest.mark.parametrize(
    ("conditions", "what"),
    [
        ([condition("Failed")], "The ProvisioningRequest failed: Because."),
        (
            [condition("Provisioned"), condition("BookingExpired", reason="CapacityBookingConsumed")],
            "The booking of the ProvisioningRequest ended: CapacityBookingConsumed.",
        ),
    ],
)
def test_request_that_ended_has_its_condition(conditions: list[Condition], what: str) -> None:
    answer = explained(provisioning_request(*conditions))
    assert (answer.what, answer.why, answer.since) == (what, ("A cause.",), NOW_S - 3600)
    assert not answer.changes


def test_request_that_is_being_deleted() -> None:
    assert explained(provisioning_request(deleted=True)).what == "The ProvisioningRequest is being deleted."


def test_request_for_another_program_names_its_class() -> None:
    answer = explained(provisioning_request(), is_ours=False)
    assert answer.what.endswith("its class is check-capacity.autoscaling.x-k8s.io.")
    assert len(answer.changes) == 2


def test_request_whose_pods_cannot_be_planned_has_the_problems() -> None:
    answer = explained(
        provisioning_request(), gang(0, **OF_REQUEST), problems=("PodTemplate a does not exist.",)
    )
    assert answer.why == ("PodTemplate a does not exist.",)


def test_pods_of_a_podset_are_counted_by_state() -> None:
    live = PodSetUse(template="a", count=6, bound=1, ready=2, starting=1, is_live=True)
    assert live.text == (
        "6 pods of PodTemplate a: 1 scheduled, 2 with capacity on ready nodes, 1 with capacity on nodes that are not ready, "
        "2 without capacity"
    )
    assert PodSetUse(template="a", count=1).text == "1 pod of PodTemplate a"


# --- Jobs -----------------------------------------------------------------------------------------------


def pending(name: str, *reasons: Reason) -> PodInput:
    return PodInput(objects.pod(name, {"uid": name}), NOW_S, Unplaced(name, reasons) if reasons else None)


def job(*, suspend: bool = False, **more: Any) -> Explanation:
    found = JobTimes(
        metadata=ObjectMeta(name="train", namespace="default", creation_timestamp=CREATED),
        spec=JobTimesSpec(suspend=suspend),
    )
    return jobs.explain(JobInput(namespace="default", name="train", now_s=NOW_S, job=found, **more))


def test_pods_with_the_reason_of_their_gang_are_explained_by_the_gang() -> None:
    of_gang = Reason(ReasonCode.GANG_DOES_NOT_FIT, "does not fit", ("default/train",), POD_GROUP)
    pods = [pending("a", of_gang), pending("b", FULL)]
    own = group(gang(3, 0, 3), known={"reasons": (of_gang,)})
    assert [line.partition(":")[0] for line in job(pods=pods, gangs=[own]).why] == [
        "1 pod",
        "PodGroup default/train",
        "PodGroup default/train",
    ]
    assert len(job(pods=pods).why) == 2


def test_suspended_job_names_what_resumes_it() -> None:
    assert job(suspend=True).why == (
        "The Job is suspended (spec.suspend), and gets pods when it is resumed.",
    )
    assert job(suspend=True, workload="default/w").why == (
        "The Job is suspended until Kueue admits its Workload default/w.",
    )
    assert job().what == "The Job has no pods."
    assert job().since == NOW_S - 3600


def test_facts_of_the_gang_are_not_repeated() -> None:
    own = msgspec.structs.replace(
        group(gang(3, 0, 3)), facts=(Fact(name="Run time", value="x"), Fact(name="Rank", value="1"))
    )
    names = [one.name for one in job(gangs=[own], workload="default/w").facts]
    assert names == ["Nodes", "Workload", "Run time", "PodGroup", "Rank"]
