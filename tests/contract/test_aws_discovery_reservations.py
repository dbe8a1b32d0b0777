"""Which reservations an EC2NodeClass selects, over the full wire of a simulated EC2."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from aws_environment import ACCOUNT, OTHER, ZONE_A, ZONE_B, Environment, condition, listed, run
from holdfast import errors
from holdfast.api import aws
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.nodeclass.resolve import RESERVATIONS
from holdfast.cloud.aws.reservations import reader
from holdfast.model.reservations import State
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.aws.service import Caller, Service
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2 import setup as ec2_setup
from holdfast.state.conversion.reservation_condition import TYPE as SLOTS
from objects import nodeclaim

MINUTE = 60
TAGS = {"team": "ml"}
MINE = {"tags": TAGS}
DESCRIBE = "DescribeCapacityReservations"
EVERYTHING = {"tags": {"any": "*"}}


class FiveReservations(Environment):
    """Two reservations of this account, two that another account shares with it, and one that is not shared."""

    def __init__(self) -> None:
        super().__init__()
        self.names = {
            self.reserve(tags={"team": "ml", "stage": "prod"}).id: "ml",
            self.reserve("c5.large", tags={"team": "web"}, criteria="targeted").id: "web",
            self.reserve(owner=OTHER, shared_with=(ACCOUNT,), tags={"team": "shared"}).id: "shared",
            self.reserve("c5.large", owner=OTHER, shared_with=(ACCOUNT,), zone_id=ZONE_B).id: "bare",
            self.reserve(owner=OTHER, tags={"team": "ml"}).id: "hidden",
        }

    def id(self, name: str) -> str:
        return next(key for key, value in self.names.items() if value == name)

    def selected(self, *terms: dict[str, Any]) -> list[str]:
        return sorted(self.names[key] for key in listed(self.selecting(*terms)))


@pytest.mark.fact("Q-1", "Q-2", "Q-5", "Q-6", "aws-1.2.5", "aws-1.2.6", "AW-01")
@pytest.mark.parametrize(
    ("terms", "names"),
    [
        (lambda f: [{"id": f.id("web")}], ["web"]),
        (lambda f: [{"id": f.id("shared")}], ["shared"]),
        (lambda f: [{"id": f.id("hidden")}], []),  # not shared: EC2 answers that it does not exist
        (lambda _: [{"id": "cr-0a1b2c3d4e5f60718"}], []),
        (lambda _: [{"ownerID": OTHER}], ["bare", "shared"]),
        (lambda _: [{"ownerID": ACCOUNT}], ["ml", "web"]),
        (lambda _: [{"tags": {"team": "ml"}}], ["ml"]),
        (lambda _: [{"tags": {"team": "*"}}], ["ml", "web"]),  # EC2 shows tags only to the owner
        (lambda _: [{"tags": {"team": "*", "stage": "prod"}}], ["ml"]),
        (lambda _: [{"tags": {"team": "ml", "stage": "test"}}], []),
        (lambda _: [{"instanceMatchCriteria": "targeted"}], ["web"]),
        (
            lambda _: [{"instanceMatchCriteria": "open"}],
            ["bare", "ml", "shared"],
        ),  # no ownerID: shared ones too
        (lambda _: [{"ownerID": OTHER, "instanceMatchCriteria": "open"}], ["bare", "shared"]),
        (lambda _: [{"ownerID": OTHER, "instanceMatchCriteria": "targeted"}], []),
        (lambda _: [{"ownerID": ACCOUNT, "tags": {"team": "ml"}}], ["ml"]),
        (lambda _: [{"ownerID": OTHER, "tags": {"team": "ml"}}], []),
        (lambda f: [{"id": f.id("bare")}, {"tags": {"team": "ml"}}], ["bare", "ml"]),
        (lambda f: [{"id": f.id("ml")}, {"tags": {"team": "ml"}}, {"ownerID": ACCOUNT}], ["ml", "web"]),
    ],
)
def test_selector_terms_select_the_matching_reservations(
    terms: Callable[[FiveReservations], list[dict[str, Any]]], names: list[str]
) -> None:
    reservations = FiveReservations()
    assert reservations.selected(*terms(reservations)) == names
    assert reservations.asked(DESCRIBE) <= 3  # one listing, then ids that it does not have


@pytest.mark.fact("Q-2", "aws-1.4.3", "AW-05", "aws-2.3.3")
def test_term_that_selects_nothing_is_reported_in_a_true_condition() -> None:
    reservations = FiveReservations()
    unknown = "cr-0a1b2c3d4e5f60718"
    found = reservations.selecting({"id": unknown}, {"tags": {"team": "nobody"}}, {"tags": {"team": "ml"}})
    status, _, message = condition(found, RESERVATIONS)
    assert status == "True"
    assert f"EC2 has no reservation {unknown}" in message
    assert "no reservation has tag team=nobody; this account sees 4" in message
    assert condition(found, "Ready")[0] == "True"
    assert [reservations.names[key] for key in listed(found)] == ["ml"]


@pytest.mark.fact("Q-3", "aws-1.3.5", "aws-2.4.2", "aws-2.4.4")
def test_status_lists_reservations_by_id_and_drops_cancelled_ones() -> None:
    env = Environment()
    plain = env.reserve()
    block = env.reserve(
        "p5.48xlarge",
        kind="capacity-block",
        criteria="targeted",
        end_s=env.clock.now_s() + 86_400,
        zone_id=ZONE_B,
        owner=OTHER,
        shared_with=(ACCOUNT,),
    )
    interruptible = env.reserve(interruptible=True, source_id=plain.id)
    node_class = env.selecting({"instanceMatchCriteria": "open"}, {"ownerID": OTHER})
    by_id = {entry.id: entry for entry in node_class.status.capacity_reservations}
    assert list(by_id) == sorted([plain.id, block.id, interruptible.id])
    entry = by_id[block.id]
    assert (entry.availability_zone, entry.instance_type, entry.owner_id) == (
        "us-west-2b",
        "p5.48xlarge",
        OTHER,
    )
    assert (entry.reservation_type, entry.state, entry.instance_match_criteria) == (
        "capacity-block",
        "active",
        "targeted",
    )
    assert entry.end_time is not None
    assert entry.end_time.timestamp() == block.end_s
    assert (by_id[plain.id].end_time, by_id[plain.id].interruptible) == (None, False)
    assert by_id[interruptible.id].interruptible
    for reservation in (plain, block, interruptible):
        control.set_state(env.ec2.region, reservation.id, "cancelled")
    env.clock.advance(MINUTE)
    assert listed(env.resolve(node_class)) == []


@pytest.mark.fact("Q-4", "aws-2.3.5", "AW-20")
@pytest.mark.parametrize(
    ("state", "listed_as"),
    [
        ("active", "active"),
        ("scheduled", "upcoming"),
        ("assessing", "upcoming"),
        ("payment-pending", "upcoming"),
        ("expired", "it is expired"),
        ("cancelled", "it is cancelled"),
        ("payment-failed", "it is payment-failed"),
        ("unsupported", "it is unsupported"),
    ],
)
def test_only_active_reservations_are_listed_and_unusable_ones_are_reported(
    state: str, listed_as: str
) -> None:
    env = Environment()
    future_s = env.clock.now_s() + 3600
    made = env.reserve(state=state, start_s=env.clock.now_s() if state == "active" else future_s)
    found = env.selecting({"id": made.id})
    assert bool(listed(found)) == (listed_as == "active")
    assert [u.id for u in found.status.upcoming_capacity_reservations] == (
        [made.id] if listed_as == "upcoming" else []
    )
    if listed_as.startswith("it is"):
        assert f"{made.id} cannot be used: {listed_as}" in condition(found, RESERVATIONS)[2]


@pytest.mark.fact("Q-37", "aws-2.4.3", "aws-2.3.5")
@pytest.mark.parametrize(
    ("kind", "minutes_left", "state"),
    [
        ("capacity-block", 41, "active"),
        ("capacity-block", 31, "active"),  # Holdfast drains it, EC2 does not reclaim it yet
        ("capacity-block", 30, "expiring"),
        ("capacity-block", 1, "expiring"),
        ("capacity-block", 0, None),
        ("default", 1, "active"),
        ("default", 0, None),
    ],
)
def test_capacity_block_is_expiring_from_30_minutes_before_its_end(
    kind: str, minutes_left: int, state: str | None
) -> None:
    env = Environment(timings=ec2_setup.Timings(expiry_lag_s=3600))
    end_s = env.clock.now_s() + 7200
    made = env.reserve(kind=kind, criteria="targeted", end_s=end_s)
    env.clock.advance(7200 - minutes_left * MINUTE)
    found = env.selecting({"id": made.id}).status.capacity_reservations
    assert [entry.state for entry in found] == ([state] if state else [])


# --- Incompatible reservations ----------------------------------------------------------------------


@pytest.mark.fact("AW-06", "aws-2.2.4", "aws-4.3.6")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"platform": "Windows"}, "it is for Windows, and images of AL2023 are Linux/UNIX"),
        ({"platform": "Red Hat Enterprise Linux"}, "it is for Red Hat Enterprise Linux"),
        (
            {"placement_group_arn": f"arn:aws:ec2:us-west-2:{ACCOUNT}:placement-group/tight"},
            "the class launches in no placement group, the reservation is in placement group tight",
        ),
    ],
)
def test_incompatible_reservation_is_reported_and_not_listed(fields: dict[str, Any], why: str) -> None:
    env = Environment()
    made = env.reserve(**fields)
    found = env.selecting({"id": made.id})
    assert listed(found) == []
    status, reason, message = condition(found, RESERVATIONS)
    assert (status, reason) == ("False", "NoCapacityReservations")
    assert f"{made.id} cannot be used: {why}" in message


def test_platform_of_a_reservation_must_match_the_image_family() -> None:
    env = Environment()
    windows, rhel = env.reserve(platform="Windows"), env.reserve(platform="Red Hat Enterprise Linux")
    terms = [{"id": windows.id}, {"id": rhel.id}]
    assert listed(env.selecting(*terms, amiSelectorTerms=[{"alias": "windows2022@latest"}])) == [windows.id]
    custom = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-00000000000000001"}]}
    assert set(listed(env.selecting(*terms, **custom))) == {
        windows.id,
        rhel.id,
    }  # the platform of a custom image is unknown


def test_a_reservation_in_the_placement_group_of_the_class_is_used() -> None:
    group = ec2_setup.PlacementGroup(id="pg-0a1b2c3d4e5f60718", account=ACCOUNT, name="tight")
    env = Environment(placement_groups=(group,))
    inside = env.reserve(placement_group_arn=f"arn:aws:ec2:us-west-2:{ACCOUNT}:placement-group/tight")
    outside = env.reserve()
    for selector in ({"name": "tight"}, {"id": group.id}):
        found = env.selecting({"id": inside.id}, {"id": outside.id}, placementGroupSelector=selector)
        assert listed(found) == [inside.id]
        assert f"{outside.id} cannot be used" in condition(found, RESERVATIONS)[2]


def test_reservation_in_a_zone_without_subnets_is_listed_and_reported() -> None:
    env = Environment()
    made = env.reserve(zone_id=ZONE_B)
    only_a = [{"id": next(s.id for s in env.ec2.region.setup.subnets if s.zone_id == ZONE_A)}]
    found = env.selecting({"id": made.id}, subnetSelectorTerms=only_a)
    assert listed(found) == [made.id]
    assert (
        f"{made.id} cannot be used yet: the class has no subnet in us-west-2b"
        in condition(found, RESERVATIONS)[2]
    )


# --- Slots ----------------------------------------------------------------------------------------------


@pytest.mark.fact("Q-42")
def test_slots_condition_is_false_while_all_reservations_are_full() -> None:
    env = Environment()
    made = [env.reserve(total=2), env.reserve(total=1)]
    node_class = env.selecting({"ownerID": ACCOUNT})
    assert condition(node_class, SLOTS)[:2] == ("True", "Available")
    for one in made:
        control.take(env.ec2.region, one.id, 2)
    env.clock.advance(MINUTE)
    node_class = env.resolve(node_class)
    assert condition(node_class, SLOTS)[:2] == ("False", "LimitExceeded")
    assert condition(node_class, "Ready")[0] == "True"  # the fallback to on-demand must still work
    control.give(env.ec2.region, made[0].id, 1)
    env.clock.advance(MINUTE)
    assert condition(env.resolve(node_class), SLOTS)[0] == "True"


def test_class_without_terms_has_no_slots_condition() -> None:
    env = Environment()
    env.reserve()
    found = env.resolve(env.node_class())
    assert all(one.type != SLOTS for one in found.status.conditions)


@pytest.mark.fact("Q-7", "aws-15.1")
def test_counts_include_reservations_in_every_state() -> None:
    env = Environment()
    full, later = (
        env.reserve(total=3),
        env.reserve(start_s=env.clock.now_s() + 3600, criteria="targeted"),
    )
    cancelled = env.reserve(state="cancelled")
    control.take(env.ec2.region, full.id, 3)
    env.selecting({"id": full.id})
    env.clock.advance(5 * MINUTE)
    counts = run(env.discovery.reservations())
    assert counts.read_began_s == env.clock.now_s()
    assert {(r.id, r.available, r.total, r.state) for r in counts.reservations} == {
        (full.id, 0, 3, State.ACTIVE),
        (later.id, 2, 2, State.PENDING),
        (cancelled.id, 2, 2, State.GONE),
    }


@pytest.mark.fact("AW-02", "W-16", "M-8")
def test_slot_counts_are_gauges() -> None:
    env = Environment()
    made = env.reserve(total=3)
    control.take(env.ec2.region, made.id, 1)
    env.selecting({"id": made.id})
    about = (("instance_type", "m5.large"), ("reservation", made.id), ("zone", "us-west-2a"))
    assert env.records.gauges[reader.SLOTS, about] == 3
    assert env.records.gauges[reader.FREE_SLOTS, about] == 2


def test_series_of_a_reservation_that_is_no_longer_shared_are_removed() -> None:
    env = Environment()
    own, unshared = env.reserve(), env.reserve(owner=OTHER, shared_with=(ACCOUNT,))
    node_class = env.selecting({"id": own.id})
    control.share(env.ec2.region, unshared.id)
    env.clock.advance(MINUTE)
    env.resolve(node_class)
    by_id = {
        dict(labels)["reservation"]: value
        for (name, labels), value in env.records.gauges.items()
        if name == reader.SLOTS
    }
    assert by_id == {own.id: 2}


# --- Call rate and failed reads -------------------------------------------------------------------------


@pytest.mark.fact("AW-01", "aws-2.3.1", "aws-2.5.3", "aws-9.1.6")
def test_one_read_a_minute_serves_all_classes() -> None:
    env = Environment()
    made = [env.reserve(tags={"team": "ml"}) for _ in range(30)]
    terms = [{"id": one.id} for one in made[:20]] + [{"tags": {"team": "ml"}}]
    classes = [env.node_class(f"c{n}", capacityReservationSelectorTerms=terms) for n in range(5)]
    for _ in range(10):
        for node_class in classes:
            assert len(listed(env.resolve(node_class))) == 30
        for _ in range(20):
            assert len(run(env.discovery.reservations()).reservations) == 30
        env.clock.advance(MINUTE)
    assert env.asked(DESCRIBE) == 10


@pytest.mark.fact("aws-2.1.2", "aws-2.1.3", "aws-2.2.1", "aws-2.2.2", "aws-2.2.3", "aws-2.1.1")
def test_all_reservations_are_read_in_one_call_and_unknown_ids_without_page_size() -> None:
    env = Environment()
    known, unknown = env.reserve().id, "cr-0a1b2c3d4e5f60718"
    env.selecting({"id": known}, {"id": known}, {"id": unknown}, {"tags": {"team": "ml"}})
    asked = [dict(call.params) for call in env.endpoint.log if call.operation == DESCRIBE]
    assert asked == [{"MaxResults": 1000}, {"CapacityReservationIds": [unknown]}]


def test_unknown_id_is_not_read_again_every_minute() -> None:
    env = Environment()
    env.reserve()
    terms = [{"id": f"cr-0000000000000000{n}"} for n in range(5)]
    node_class = env.selecting(*terms)
    first = env.asked(DESCRIBE)
    for _ in range(10):
        env.clock.advance(MINUTE)
        node_class = env.resolve(node_class)
    assert env.asked(DESCRIBE) - first == 10


@pytest.mark.fact("aws-2.3.6")
def test_reservations_are_not_read_without_selector_terms() -> None:
    env = Environment()
    env.reserve()
    env.resolve(env.node_class())
    assert run(env.discovery.reservations()).reservations == ()
    assert env.asked(DESCRIBE) == 0


def test_reading_instance_types_does_not_change_which_reservations_are_read() -> None:
    env = Environment()
    made = env.reserve()
    node_class = env.selecting({"id": made.id})
    restarted = Environment()
    restarted.reserve()
    run(restarted.discovery.instance_types(node_class))  # the watch cache does not have this class
    asked = restarted.asked(DESCRIBE)
    assert run(restarted.discovery.reservations()).reservations == ()
    run(restarted.discovery.schedule.step())
    assert restarted.asked(DESCRIBE) == asked


@pytest.mark.fact("aws-6.2.7")
@pytest.mark.parametrize("reserved_capacity", [True, False])
def test_capacity_block_of_a_nodeclaim_is_read_although_no_class_selects_it(
    *, reserved_capacity: bool
) -> None:
    env = Environment(settings=Settings(reserved_capacity=reserved_capacity))
    block = env.reserve(kind="capacity-block", criteria="targeted", end_s=env.clock.now_s() + 86_400)
    labels = {aws.CAPACITY_RESERVATION_TYPE: "capacity-block", aws.CAPACITY_RESERVATION_ID: block.id}
    env.watched(nodeclaim("claim-1", {"labels": labels}))
    assert [one.id for one in run(env.discovery.reservations()).reservations] == [block.id]


@pytest.mark.fact("Q-33", "aws-2.6.1")
def test_disabled_feature_gate_reads_nothing_and_leaves_the_status() -> None:
    env = Environment(settings=Settings(reserved_capacity=False))
    made = env.reserve()
    before = env.node_class(
        capacityReservationSelectorTerms=[{"id": made.id}],
        status={
            "capacityReservations": [
                {
                    "id": "cr-old",
                    "availabilityZone": "us-west-2a",
                    "instanceType": "m5.large",
                    "instanceMatchCriteria": "open",
                    "ownerID": ACCOUNT,
                }
            ]
        },
    )
    after = env.resolve(before)
    assert listed(after) == ["cr-old"]
    assert all(one.type != RESERVATIONS for one in after.status.conditions)
    assert condition(after, "Ready")[0] == "True"
    assert env.asked(DESCRIBE) == 0


@pytest.mark.fact("Q-4")
@pytest.mark.parametrize(
    "fault",
    [
        faults.Broken(operation=DESCRIBE, from_s=1),
        faults.Throttled(operation=DESCRIBE, from_s=1),
        faults.Denied(operation=DESCRIBE, from_s=1),
        faults.Lost(operation=DESCRIBE, from_s=1),
    ],
)
def test_failed_read_leaves_the_status_unchanged(fault: faults.OfCall) -> None:
    start_s = Environment().clock.now_s()
    env = Environment(rules=[replace(fault, from_s=start_s + 30)])
    made = env.reserve()
    node_class = env.selecting({"id": made.id})
    control.take(env.ec2.region, made.id, 1)
    env.clock.advance(2 * MINUTE)
    after = env.resolve(node_class)
    assert after.status.capacity_reservations == node_class.status.capacity_reservations
    assert condition(after, RESERVATIONS) == condition(node_class, RESERVATIONS)
    with pytest.raises(errors.HoldfastError):
        run(env.discovery.reservations())


@pytest.mark.fact("aws-3.1", "Q-4", "AW-03", "aws-3.10")
def test_catalog_uses_the_last_counts_and_fails_before_the_first_read() -> None:
    env = Environment(rules=[faults.Broken(operation=DESCRIBE, from_s=Environment().clock.now_s() + 30)])
    made = env.reserve()
    node_class = env.selecting({"id": made.id})
    control.take(env.ec2.region, made.id, 1)
    env.clock.advance(2 * MINUTE)
    types = run(env.discovery.instance_types(node_class))
    assert [o.count for it in types for o in it.offerings if o.reservation_id == made.id] == [2]
    with pytest.raises(errors.Unreachable):  # a guess of 0 would launch on demand although slots are paid for
        run(env.restarted().instance_types(node_class))


class SecondPageFails(NoFaults):
    """Every listing fails after its first page."""

    def fault(self, _: str, __: str, params: Mapping[str, Any]) -> ApiError | None:
        return ApiError("InternalError", "no", 500) if "NextToken" in params else None


class Unreadable:
    """An EC2 whose answer lacks the instance type of one reservation."""

    def __init__(self, service: Service, reservation_id: str) -> None:
        self._service = service
        self._id = reservation_id

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        answer = self._service.call(operation, params, caller)
        for one in answer.get("CapacityReservations", ()):
            if one["CapacityReservationId"] == self._id:
                del one["InstanceType"]
        return answer


@pytest.mark.fact("aws-6.2.6")
def test_unreadable_reservation_is_logged_once_and_only_its_counts_stay_old() -> None:
    env = Environment()
    first, second = env.reserve(tags=TAGS), env.reserve(tags=TAGS)
    node_class = env.selecting(MINE)
    service = env.endpoint.services["ec2"]
    env.endpoint.services = {**env.endpoint.services, "ec2": Unreadable(service, first.id)}
    for reservation in (first, second):
        control.take(env.ec2.region, reservation.id, 1)
    with capture_logs() as logged:
        for _ in range(3):
            env.clock.advance(MINUTE)
            node_class = env.resolve(node_class)
    assert listed(node_class) == sorted([first.id, second.id])
    counts = run(env.discovery.reservations())
    assert {one.id: one.available for one in counts.reservations} == {first.id: 2, second.id: 1}
    assert [(line["reservation"], line["error"]) for line in logged] == [
        (
            first.id,
            "DescribeCapacityReservations: the answer cannot be read: 'InstanceType' is missing",
        )
    ]


@pytest.mark.fact("aws-6.2.6")
def test_reservation_that_was_never_readable_is_not_listed() -> None:
    env = Environment()
    first, second = env.reserve(tags=TAGS), env.reserve(tags=TAGS)
    service = env.endpoint.services["ec2"]
    env.endpoint.services = {**env.endpoint.services, "ec2": Unreadable(service, first.id)}
    assert listed(env.selecting(MINE)) == [second.id]


@pytest.mark.fact("Q-4")
def test_incomplete_listing_leaves_the_status_unchanged() -> None:
    env = Environment()
    for _ in range(1001):  # a page has 1000
        env.reserve(total=1)
    node_class = env.selecting({"ownerID": ACCOUNT})
    assert len(listed(node_class)) == 1001
    env.endpoint.faults = SecondPageFails()
    env.clock.advance(2 * MINUTE)
    assert env.resolve(node_class).status.capacity_reservations == node_class.status.capacity_reservations
    with pytest.raises(errors.Unreachable):
        run(env.discovery.reservations())
