"""The checker of gangs and requests in the fault simulation reports each kind of problem, and nothing else."""

import dataclasses
from datetime import UTC, datetime
from typing import Any, Final

import pytest

import objects
from fault_simulation import gang_oracle
from fault_simulation.generate import App, FaultSchedule, Pool, Request, Slots
from fault_simulation.oracle import Scene
from holdfast.api.conditions import Condition
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.provisioning import (
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import Reservation

NOW_S: Final = 1_800_000_000
SLOTS: Final = Slots("slots", "m5.large", "us-west-2a", 3, 0, 0, open=False)
POOL: Final = Pool("pool", ("m5.large",), ("reserved",), ("slots",), 0, None, tainted=False)
GANG: Final = App("gang", 3, 1400, (), tolerates=False, gang="JobSet", least=3)
USER: Final = App("request", 0, 1400, (), tolerates=False, consumes=True)
WANTED: Final = Request("request", 2, 1400, "atomic.holdfast.dev", None, False, None, is_used=True)


def pods(pending: int, bound: int = 0) -> tuple[Pod, ...]:
    labels = {"app": "gang"}
    return tuple(
        Pod(
            metadata=ObjectMeta(name=f"p{number}", labels=labels),
            spec={"nodeName": f"n{number}"} if number < bound else {},
            status={},
        )
        for number in range(pending + bound)
    )


def reservation(available: int, **fields: Any) -> dict[str, Reservation]:
    plain = {"total": 3, "available": available, "created_s": 0, "start_s": 0}
    found = Reservation(
        id="cr-1", owner="1", instance_type="m5.large", zone_id="usw2-az2", **(plain | fields)
    )
    return {"slots": found}


def request(*types: str, since_s: int = NOW_S) -> tuple[ProvisioningRequest, ...]:
    at = datetime.fromtimestamp(since_s, UTC)
    conditions = [
        Condition(type=type_, status="True", reason="R", message="", last_transition_time=at)
        for type_ in types
    ]
    return (
        ProvisioningRequest(
            metadata=ObjectMeta(name="request", namespace="default"),
            spec=ProvisioningRequestSpec(),
            status=ProvisioningRequestStatus(conditions=tuple(conditions)),
        ),
    )


def scene(pool: Pool = POOL, app: App = GANG, wanted: Request = WANTED, **fields: Any) -> Scene:
    made = FaultSchedule(1, (SLOTS,), (pool,), (app, USER), (), (), 1, requests=(wanted,))
    plain: dict[str, Any] = {"wanted": {}, "pods": (), "claims": (), "nodes": (), "instances": ()}
    plain |= {"reservations": reservation(0), "templates": frozenset({"request"}), "now_s": NOW_S}
    return Scene(schedule=made, **(plain | fields))


def claim(name: str = "c", launch: str = "", *, node: str = "n0", launched: bool = True) -> NodeClaim:
    at = "2026-01-01T00:00:00Z"
    status = "True" if launched else "False"
    condition = {"type": "Launched", "status": status, "lastTransitionTime": at, "reason": "R"}
    meta = {"annotations": {gang_oracle.LAUNCH: launch}} if launch else {}
    return objects.nodeclaim(name, meta, {"nodeName": node, "conditions": [condition]})


def test_a_valid_scene_has_no_problems() -> None:
    found = scene(pods=pods(3), requests=request("Accepted"), reservations=reservation(1))
    assert gang_oracle.problems(found) == []


@pytest.mark.parametrize(
    ("changes", "is_problem"),
    [
        ({"pods": pods(3), "reservations": reservation(3)}, True),
        ({"pods": pods(3), "reservations": reservation(2)}, False),
        ({"pods": pods(1, bound=2), "reservations": reservation(1)}, True),
        ({"pods": pods(0, bound=3), "reservations": reservation(3)}, False),
        ({"pods": pods(3), "reservations": reservation(3, state="expired")}, False),
        ({"pods": pods(3), "pool": dataclasses.replace(POOL, capacity_types=("on-demand",))}, True),
        (
            {
                "pods": pods(3),
                "pool": dataclasses.replace(POOL, capacity_types=("on-demand",), vcpu_limit=4),
            },
            False,
        ),
        (
            {
                "pods": pods(2),
                "app": dataclasses.replace(GANG, gang="PodGroup"),
                "reservations": reservation(3),
            },
            False,  # a pod is missing
        ),
        (
            {
                "pods": pods(1, bound=3),
                "app": dataclasses.replace(GANG, gang="PodGroup"),
                "reservations": reservation(1),
            },
            True,  # one more than the PodGroup needs
        ),
    ],
)
def test_pending_members_are_a_problem_if_there_is_capacity_for_all_of_them(
    changes: dict[str, Any], *, is_problem: bool
) -> None:
    found = gang_oracle.problems(scene(**changes))
    assert any("there is capacity for" in one for one in found) is is_problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": request()}, "request is not accepted"),
        ({"requests": request("Accepted", "Provisioned")}, "request is still booked"),
        ({"requests": request("Accepted"), "templates": frozenset()}, "request waits without a template"),
        ({"requests": request("Accepted"), "reservations": reservation(2)}, "capacity for 2 pods"),
        ({"claims": (claim(),)}, "c has no pods"),
        (
            {"nodes": (objects.node("n", spec={"taints": [{"key": gang_oracle.FORMING, "effect": "e"}]}),)},
            "n still forms",
        ),
    ],
)
def test_each_problem_is_reported(changes: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in gang_oracle.problems(scene(**changes)))


@pytest.mark.parametrize(
    ("wanted", "could"),
    [
        ({}, True),
        ({"count": 3}, False),
        ({"cpu_millis": 2900}, False),
        ({"is_in_one_zone": True}, True),
        ({"class_name": "check-capacity.autoscaling.x-k8s.io"}, False),
    ],
)
def test_a_request_that_waits_is_a_problem_if_its_pods_fit(wanted: dict[str, Any], *, could: bool) -> None:
    one = scene(
        wanted=dataclasses.replace(WANTED, **wanted),
        requests=request("Accepted"),
        reservations=reservation(2),
    )
    assert any("waits, and" in problem for problem in gang_oracle.problems(one)) is could


@pytest.mark.parametrize("ended", ["Failed", "BookingExpired"])
def test_a_request_that_ended_is_no_problem(ended: str) -> None:
    one = scene(requests=request("Accepted", "Provisioned", ended), reservations=reservation(3))
    assert gang_oracle.problems(one) == []


@pytest.mark.parametrize(("minutes", "is_late"), [(10, False), (12, True)])
def test_a_booking_must_end(minutes: int, *, is_late: bool) -> None:
    one = scene(requests=request("Accepted", "Provisioned", since_s=NOW_S - 60 * minutes))
    assert bool(list(gang_oracle.violations(one, 0, ()))) is is_late
    assert not list(gang_oracle.violations(one, NOW_S, ()))  # faults ended just now


@pytest.mark.parametrize(
    ("ever", "is_violation"),
    [
        ((claim("a", "x/2", launched=False),), False),
        ((claim("a", "x/2", launched=False), claim("b", "x/2"), claim("a", "x/2")), False),
        ((claim("a", "x/2"),), True),
        ((claim("a"),), False),
    ],
)
def test_a_part_of_a_gang_launch_is_a_violation(ever: tuple[NodeClaim, ...], *, is_violation: bool) -> None:
    assert bool(list(gang_oracle.violations(scene(), 0, ever))) is is_violation
