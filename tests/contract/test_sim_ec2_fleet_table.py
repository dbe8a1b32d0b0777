"""CreateFleet with reservations, row by row of the appendix of the reservation design, through every front."""

from collections.abc import Iterator
from typing import Any

import botocore
import pytest
from botocore.exceptions import ClientError

import sim_aws
from ec2_region import Region, config, errors, pools
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.setup import ACCOUNT

FIRST = "use-capacity-reservations-first"


class Fronted(Region):
    """A region that is called with botocore, through a front."""

    client: Any

    def call(self, operation: str, account: str = ACCOUNT, **params: Any) -> dict[str, Any]:
        assert account == ACCOUNT, "the client has the keys of one account"
        try:
            answer = getattr(self.client, botocore.xform_name(operation))(**params)
        except ClientError as error:
            details = error.response["Error"]
            raise ApiError(details["Code"], details["Message"]) from error
        return dict(sim_aws.without_metadata(answer))


@pytest.fixture(params=sim_aws.FRONTS)
def region(request: pytest.FixtureRequest) -> Iterator[Region]:
    fronted = Fronted()
    env = sim_aws.endpoint({"ec2": fronted.ec2}, clock=sim_aws.JumpingClock())
    with sim_aws.clients(request.param, env) as aws:
        fronted.client = aws["ec2"]
        yield fronted


@pytest.mark.fact("Q-31")
def test_row_1_templates_that_target_a_reservation_are_not_used_when_reservations_come_first(
    region: Region,
) -> None:
    reservation = region.reserve(criteria="targeted")
    targeted, plain = region.targeting(reservation), region.template()
    answer = region.fleet(config(targeted, "m5.large/a"), config(plain, "m5.2xlarge/b"), usage=FIRST)
    assert pools(answer) == {"m5.2xlarge/b": 1}  # more expensive, but the only one that may be used
    assert region.available(reservation) == 2

    alone = region.fleet(config(targeted, "m5.large/a"), usage=FIRST)
    assert alone["Instances"] == []
    assert errors(alone) == [("m5.large/a", "UnfulfillableCapacity")]


@pytest.mark.fact("Q-31")
def test_row_2_open_reservations_are_used_up_by_price_then_plain_on_demand_never_a_targeted_one(
    region: Region,
) -> None:
    cheap = region.reserve("m5.xlarge", "b", total=1)
    dear = region.reserve("m5.2xlarge", "c", total=1)
    targeted = region.reserve("m5.xlarge", "c", total=5, criteria="targeted")
    elsewhere = region.reserve("m5.xlarge", "d", total=5)  # open, but not among the pairs
    wanted = ("m5.large/a", "m5.2xlarge/c", "m5.xlarge/c", "m5.xlarge/b")
    answer = region.fleet(config(region.template(), *wanted), count=4, usage=FIRST)
    used = [instance.reservation_id for instance in region.launched(answer)]
    assert used == [cheap.id, dear.id, "", ""]
    assert pools(answer) == {"m5.xlarge/b": 1, "m5.2xlarge/c": 1, "m5.large/a": 2}
    assert (region.available(targeted), region.available(elsewhere)) == (5, 5)


def test_preference_none_joins_no_open_reservation_even_when_reservations_come_first(
    region: Region,
) -> None:
    open_one = region.reserve()
    template = region.template(CapacityReservationSpecification={"CapacityReservationPreference": "none"})
    (instance,) = region.launched(region.fleet(config(template, "m5.large/a"), usage=FIRST))
    assert instance.reservation_id == ""
    assert region.available(open_one) == 2


@pytest.mark.fact("Q-31", "aws-15.2")
def test_row_3_targeted_reservations_are_filled_by_price_and_then_fail_never_on_demand(
    region: Region,
) -> None:
    cheap = region.reserve("m5.large", "a", total=1, criteria="targeted")
    dear = region.reserve("m5.2xlarge", "b", total=1, criteria="open")
    configs = (
        config(region.targeting(dear), "m5.2xlarge/b"),
        config(region.targeting(cheap), "m5.large/a"),
    )
    first = region.fleet(*configs)
    assert pools(first) == {"m5.large/a": 1}
    second = region.fleet(*configs)
    assert pools(second) == {"m5.2xlarge/b": 1}
    assert errors(second) == [("m5.large/a", "ReservationCapacityExceeded")]
    third = region.fleet(*configs)
    assert third["Instances"] == []
    assert errors(third) == [
        ("m5.large/a", "ReservationCapacityExceeded"),
        ("m5.2xlarge/b", "ReservationCapacityExceeded"),
    ]
    inside = [instance.reservation_id for instance in region.state.instances]
    assert inside == [cheap.id, dear.id]


@pytest.mark.fact("Q-31")
def test_row_4_plain_on_demand_joins_an_open_reservation_only_if_it_matches(region: Region) -> None:
    open_one = region.reserve("m5.large", "a", total=1)
    other = region.reserve("m5.xlarge", "a", total=1)  # has a free slot, but is not the cheapest pair
    answer = region.fleet(config(region.template(), "m5.xlarge/a", "m5.large/a"), count=2)
    assert pools(answer) == {"m5.large/a": 2}
    assert [instance.reservation_id for instance in region.launched(answer)] == [open_one.id, ""]
    assert region.available(other) == 1


@pytest.mark.fact("Q-31")
def test_row_5_preference_none_never_joins_even_an_open_reservation_that_matches(region: Region) -> None:
    open_one = region.reserve("m5.large", "a")
    (instance,) = region.launch(CapacityReservationSpecification={"CapacityReservationPreference": "none"})
    assert instance.reservation_id == ""
    assert region.available(open_one) == 2


@pytest.mark.fact("Q-31")
def test_row_6_a_target_with_preference_none_fails_at_launch(region: Region) -> None:
    reservation = region.reserve(criteria="targeted")
    answer = region.fleet(config(region.targeting(reservation, "none"), "m5.large/a"))
    assert answer["Instances"] == []
    assert errors(answer) == [("m5.large/a", "InvalidParameterCombination")]
    assert region.available(reservation) == 2


@pytest.mark.fact("Q-31", "aws-15.2")
def test_fleet_with_the_same_type_and_zone_twice_is_refused_as_a_whole(
    region: Region,
) -> None:
    one, two = region.reserve(criteria="targeted"), region.reserve(criteria="targeted")
    refused = region.refusal(
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=[
            config(region.targeting(one), "m5.large/a"),
            config(region.targeting(two), "m5.large/a"),
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1},
    )
    assert refused.code == "InvalidFleetConfig"
    assert len(region.state.instances) == 0
    assert (region.available(one), region.available(two)) == (2, 2)
