"""Random steps on the simulated EC2: every invariant holds after every step, and all slots are released at the end.

Each seed gives one sequence of steps; the seed is in the id of the test.
"""

import contextlib
import copy
import gc
import random
import weakref
from typing import Any

import pytest

from ec2_region import OTHER, START_S, ZONES, Region, config
from holdfast.cloud.aws.client import answers
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.cloud.aws.instances.parsed_groups import ParsedGroups
from holdfast.sim.aws.codec import protocols
from holdfast.sim.aws.errors import ApiError, LostResponse
from holdfast.sim.ec2 import control, faults, instance_calls, status_calls
from holdfast.sim.ec2.descriptions import Descriptions
from holdfast.sim.ec2.entities import Reservation
from holdfast.sim.ec2.requests import Request
from holdfast.sim.ec2.setup import ACCOUNT

STEPS = 120
CLASS_TAG = "karpenter.k8s.aws/ec2nodeclass"
TYPES = ("m5.large", "m5.xlarge", "p5.48xlarge")
RULES = (
    faults.Lost(chance=0.05),
    faults.Throttled(chance=0.03),
    faults.NoCapacity(chance=0.1),
    faults.Partial(chance=0.05, at_most=1),
    faults.NeverBoots(chance=0.05),
    faults.Silent(chance=0.05),
    faults.HostFails(chance=0.1, after_s=400),
    faults.Dies(chance=0.1, after_s=500),
    faults.Stale(chance=0.2, lag_s=40),
)


class RandomSteps:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.region = Region(seed=seed, release_lag_s=45)
        self.state = self.region.state
        self.templates = {
            (account, preference): self.region.template(account, **_specification(preference))
            for account in (ACCOUNT, OTHER)
            for preference in ("open", "none", "capacity-reservations-only")
        }
        self.group = control.add_group(self.state, account=ACCOUNT, name="all")
        for rule in RULES:
            self.state.faults.add(rule)

    def step(self) -> None:
        steps = (
            self.reserve, self.block, self.launch, self.launch, self.launch_into, self.launch_into, self.launch_group,
            self.terminate, self.terminate, self.wait, self.wait, self.wait, self.cancel, self.resize, self.use_or_release_elsewhere,
            self.share, self.lend, self.take_back, self.interrupt, self.extend,
        )  # fmt: skip
        with contextlib.suppress(ApiError, LostResponse):  # refused calls and lost responses are expected
            self.dice.choice(steps)()
        self.region.ec2.advance()

    def call(self, operation: str, account: str = ACCOUNT, **params: Any) -> dict[str, Any]:
        return self.region.call(operation, account, **params)

    def pick(self, **wanted: Any) -> Reservation:
        found = [r for r in self.state.reservations if all(getattr(r, k) == v for k, v in wanted.items())]
        if not found:
            raise ApiError("Nothing", "no reservation matches")
        return self.dice.choice(found)

    # --- Steps --------------------------------------------------------------------------------------

    def reserve(self) -> None:
        end_s = self.dice.choice([0, self.state.now_s + self.dice.randrange(100, 5000)])
        self.region.reserve(
            self.dice.choice(TYPES),
            self.dice.choice("ab"),
            self.dice.randrange(1, 6),
            criteria=self.dice.choice(("open", "targeted")),
            end_s=end_s,
            owner=self.dice.choice((ACCOUNT, OTHER)),
        )

    def block(self) -> None:
        start_s = self.state.now_s + self.dice.randrange(0, 2000)
        fields = {"kind": "capacity-block", "criteria": "targeted", "ultraserver": self.dice.random() < 0.3}
        self.region.reserve("p5.48xlarge", "a", 2, start_s=start_s, end_s=start_s + 9000, **fields)

    def launch(self) -> None:
        account = self.dice.choice((ACCOUNT, OTHER))
        preference = self.dice.choice(("open", "none", "capacity-reservations-only"))
        pools = [f"{name}/{zone}" for name in TYPES[:2] for zone in "abc"]
        self.region.fleet(
            config(self.templates[account, preference], *self.dice.sample(pools, 3)),
            count=self.dice.randrange(1, 5),
            kind=self.dice.choice(("on-demand", "on-demand", "spot")),
            account=account,
        )

    def launch_into(self) -> None:
        reservation = self.pick()
        market = reservation.reservation_type
        if market == "on-demand-capacity-reservation":
            market = ""
        kind = {"": "on-demand", "capacity-block": "capacity-block"}.get(market, "reserved-capacity")
        more: dict[str, Any] = {}
        if kind == "reserved-capacity":
            more["ReservedCapacityOptions"] = {"ReservationTypes": [market]}
        zone = next(letter for letter, zone_id in ZONES.items() if zone_id == reservation.zone_id)
        template = self.region.targeting(reservation, "capacity-reservations-only", market)
        pool = config(template, f"{reservation.instance_type}/{zone}")
        self.region.fleet(pool, count=self.dice.randrange(1, 4), kind=kind, **more)

    def launch_group(self) -> None:
        member = self.pick(owner=ACCOUNT)
        if member.id not in self.state.groups[self.group.id].members:
            control.add_to_group(self.state, self.group.id, member.id)
        target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": self.group.id}}
        template = self.region.template(CapacityReservationSpecification=target)
        self.region.fleet(config(template, "m5.large/a", "m5.xlarge/b"), count=2)

    def terminate(self) -> None:
        own_ids = [i.id for i in self.state.instances if i.account == ACCOUNT]
        self.call("TerminateInstances", InstanceIds=self.dice.sample(own_ids, min(len(own_ids), 2)))

    def wait(self) -> None:
        self.region.wait(self.dice.choice((1, 20, 45, 300, 3000)))

    def cancel(self) -> None:
        self.call("CancelCapacityReservation", CapacityReservationId=self.pick(owner=ACCOUNT).id)

    def resize(self) -> None:
        count = self.dice.randrange(1, 8)
        self.call(
            "ModifyCapacityReservation",
            CapacityReservationId=self.pick(owner=ACCOUNT).id,
            InstanceCount=count,
        )

    def use_or_release_elsewhere(self) -> None:
        change = self.dice.choice((control.take, control.give))
        change(self.state, self.pick(state="active").id, self.dice.randrange(1, 3))

    def share(self) -> None:
        accounts = self.dice.choice(((), (OTHER,)))
        control.share(self.state, self.pick(owner=ACCOUNT, state="active").id, *accounts)

    def lend(self) -> None:
        self.call(
            "CreateInterruptibleCapacityReservationAllocation",
            CapacityReservationId=self.pick(owner=ACCOUNT).id,
            InstanceCount=self.dice.randrange(1, 3),
        )

    def take_back(self) -> None:
        self.call(
            "UpdateInterruptibleCapacityReservationAllocation",
            CapacityReservationId=self.pick(owner=ACCOUNT).id,
            TargetInstanceCount=self.dice.randrange(3),
        )

    def interrupt(self) -> None:
        spots = [i.id for i in self.state.instances if i.lifecycle == "spot" and i.is_pending_or_running]
        if spots:
            control.interrupt_spot(self.state, self.dice.choice(spots))

    def extend(self) -> None:
        block = self.pick(kind="capacity-block", state="active")
        if self.state.now_s < block.reclaim_s:
            control.set_end(self.state, block.id, block.end_s + self.dice.randrange(0, 9000))


def _specification(preference: str) -> dict[str, Any]:
    return {"CapacityReservationSpecification": {"CapacityReservationPreference": preference}}


@pytest.mark.parametrize("seed", range(25))
def test_invariants_hold_after_random_steps_and_all_slots_are_released(seed: int) -> None:
    random_steps = RandomSteps(seed)
    for _ in range(STEPS):
        random_steps.step()
    random_steps.region.ec2.check_all()
    state = random_steps.state
    assert len(state.instances) > 0
    assert state.now_s > START_S
    for instance in state.instances:
        control.kill(state, instance.id)
    random_steps.region.wait(10_000)
    random_steps.region.ec2.check_all()
    assert [i.held_reservation_id for i in state.instances if i.held_reservation_id] == []
    for reservation in state.reservations:
        if reservation.active:
            assert reservation.available == reservation.total - reservation.elsewhere - reservation.lent


@pytest.mark.parametrize("seed", range(4))
def test_descriptions_from_the_cache_are_those_from_scratch(seed: int) -> None:
    random_steps = RandomSteps(seed)
    state, dice = random_steps.state, random.Random(seed)
    codec = protocols.codec("ec2")
    model = codec.operation_model("DescribeInstances")
    checked, parsed = answers.Checked(), ParsedGroups(CLASS_TAG)

    def from_scratch(request: Request) -> dict[str, Any]:
        cached, state.descriptions = state.descriptions, Descriptions(state.instances)
        try:
            return codec.strict_result(model, instance_calls.describe(state, request))
        finally:
            state.descriptions = cached

    for _ in range(STEPS):
        random_steps.step()
        ids = [one.id for one in state.instances] or ["i-1"]
        params: dict[str, Any] = dice.choice(
            [
                {},
                {"Filters": [{"Name": "instance-state-name", "Values": ["pending", "running"]}]},
                {"Filters": [{"Name": "instance-id", "Values": dice.choices(ids, k=3)}]},
                {"Filters": [{"Name": "instance-id", "Values": [dice.choice(ids)[:5] + "*"]}]},
                {"MaxResults": 5},
            ]
        )
        request = Request("DescribeInstances", params, ACCOUNT, stale_s=dice.choice((0, 0, 40)))
        answer = codec.strict_result(model, instance_calls.describe(state, request))
        assert answer == from_scratch(request)
        answers.check(answer, model.output_shape, checked)
        selected = dice.choice((frozenset[str](), frozenset(one.id for one in state.reservations)))
        ahead_s = dice.choice((0, 7))
        selected_by = dict.fromkeys(("",), selected).__getitem__  # no instance has the tag of a class
        parse = parsed.parser(selected_by, ahead_s)
        for group in answer["Reservations"]:
            assert parse(group) == tuple(
                ec2_instances.read(raw, selected_by, ahead_s, CLASS_TAG) for raw in group["Instances"]
            )


@pytest.mark.parametrize("seed", range(3))
def test_statuses_from_the_cache_are_those_from_scratch(seed: int) -> None:
    random_steps = RandomSteps(seed)
    state, dice = random_steps.state, random.Random(seed)
    codec = protocols.codec("ec2")
    model = codec.operation_model("DescribeInstanceStatus")
    impaired: dict[str, Any] = {"Filters": [{"Name": "system-status.status", "Values": ["impaired"]}]}
    for _ in range(STEPS):
        random_steps.step()
        params: dict[str, Any] = dice.choice([{}, impaired, {"IncludeAllInstances": True}])
        request = Request("DescribeInstanceStatus", params, ACCOUNT, stale_s=dice.choice((0, 40)))
        answer = codec.strict_result(model, status_calls.describe(state, request))
        cached, state.statuses = state.statuses, Descriptions(state.instances)
        assert answer == codec.strict_result(model, status_calls.describe(state, request))
        state.statuses = cached


def test_parsed_group_is_used_again_and_ends_with_its_group() -> None:
    region = Region()
    region.fleet(config(region.template(), "m5.large/a"), count=2)
    codec = protocols.codec("ec2")
    model, parsed = codec.operation_model("DescribeInstances"), ParsedGroups(CLASS_TAG)
    request = Request("DescribeInstances", {}, ACCOUNT)

    def groups() -> list[Any]:
        found: list[Any] = codec.strict_result(model, instance_calls.describe(region.state, request))[
            "Reservations"
        ]
        return found

    parse = parsed.parser(lambda _: frozenset[str](), 0)
    instances = parse(groups()[0])
    gc.collect()
    assert parse(groups()[0]) is instances
    group = weakref.ref(groups()[0])
    region.state.descriptions = Descriptions(region.state.instances)
    gc.collect()
    assert group() is None


def test_an_unchanged_instance_is_the_same_read_only_document() -> None:
    region = Region()
    region.fleet(config(region.template(), "m5.large/a"), count=2)
    codec = protocols.codec("ec2")
    model = codec.operation_model("DescribeInstances")

    def described() -> list[dict[str, Any]]:
        request = Request("DescribeInstances", {}, ACCOUNT)
        result = codec.strict_result(model, instance_calls.describe(region.state, request))
        return list(result["Reservations"][0]["Instances"])

    before = described()
    with pytest.raises(TypeError, match="cannot be changed"):
        before[0]["State"]["Name"] = "stopped"
    with pytest.raises(TypeError, match="cannot be changed"):
        before[0]["Tags"].append({})
    region.state.put_instance(region.state.instances[before[0]["InstanceId"]], tags={"a": "b"})
    after = described()
    assert after[1] is before[1]
    assert after[0]["Tags"] == [{"Key": "a", "Value": "b"}] != before[0]["Tags"]
    assert copy.deepcopy(after) == after
    copy.deepcopy(after)[0]["State"]["Name"] = "stopped"
