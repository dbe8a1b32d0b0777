"""A simulated EC2 with a clock that a test moves, and with defaults for all fields that a test does not check."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ec2_shapes
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control, setup
from holdfast.sim.ec2.entities import Instance, Reservation
from holdfast.sim.ec2.faults import Fault
from holdfast.sim.ec2.service import Ec2
from holdfast.sim.ec2.setup import ACCOUNT, Timings

START_S = 1_800_000_000
MINUTE_S = 60
HOUR_S = 3600
OTHER = "444455556666"
ZONES = {"a": "usw2-az2", "b": "usw2-az1", "c": "usw2-az3", "d": "usw2-az4"}
TYPES = ("m5.large", "m5.xlarge", "m5.2xlarge")  # in the order of their prices


class Clock:
    def __init__(self) -> None:
        self.seconds = START_S

    def now_s(self) -> int:
        return self.seconds


class Dice:
    """Ids and jitter from a seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def token(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def jitter(self, seconds: float) -> float:
        return self._random.random() * seconds


class Region:
    """us-west-2 with two accounts. Every answer is checked against botocore's model."""

    def __init__(
        self,
        *,
        rules: Sequence[Fault] = (),
        seed: int = 7,
        throttled: bool = False,
        vcpu_limit: int = 0,
        has_profile: Callable[[str], bool] = lambda _: True,
        **timings: int,
    ) -> None:
        self.clock = Clock()
        self.events: list[dict[str, Any]] = []
        defaults = setup.plain(accounts=(ACCOUNT, OTHER))
        self.setup = replace(
            defaults,
            accounts=tuple(replace(account, vcpu_limit=vcpu_limit) for account in defaults.accounts),
            has_profile=has_profile,
            timings=Timings(**timings),
        )
        self.ec2 = Ec2(
            clock=self.clock,
            ids=Dice(seed),
            setup=self.setup,
            rules=rules,
            sink=self.events.append,
            throttled=throttled,
        )
        self.state = self.ec2.region
        self._templates = 0

    def call(self, operation: str, account: str = ACCOUNT, **params: Any) -> dict[str, Any]:
        ec2_shapes.check_params(operation, params)
        answer = self.ec2.call(operation, params, Caller(account, user_agent="test"))
        ec2_shapes.check_answer(operation, answer)
        return answer

    def wait(self, seconds: int) -> None:
        self.clock.seconds += seconds
        self.ec2.advance()

    def refusal(self, operation: str, account: str = ACCOUNT, **params: Any) -> ApiError:
        """Makes a call that must fail, and returns its error."""
        try:
            answer = self.call(operation, account, **params)
        except ApiError as error:
            return error
        raise AssertionError(f"{operation} was not refused: {answer}")

    # --- Reservations -------------------------------------------------------------------------------

    def reserve(
        self, instance_type: str = "m5.large", zone: str = "a", total: int = 2, **fields: Any
    ) -> Reservation:
        return control.add_reservation(
            self.state,
            instance_type=instance_type,
            zone_id=ZONES[zone],
            total=total,
            **{"owner": ACCOUNT, **fields},
        )

    def available(self, reservation: Reservation) -> int:
        return int(self.described(reservation)["AvailableInstanceCount"])

    def described(self, reservation: Reservation, account: str = ACCOUNT) -> dict[str, Any]:
        (answer,) = self.call(
            "DescribeCapacityReservations", account, CapacityReservationIds=[reservation.id]
        )["CapacityReservations"]
        return dict(answer)

    # --- Launches -----------------------------------------------------------------------------------

    def template(self, account: str = ACCOUNT, **data: Any) -> str:
        """Creates a launch template with this data, and returns its name."""
        self._templates += 1
        name = f"template/{self._templates}"
        template_data = {"ImageId": self.setup.images[0].id} | data
        self.call("CreateLaunchTemplate", account, LaunchTemplateName=name, LaunchTemplateData=template_data)
        return name

    def targeting(
        self, reservation: Reservation, preference: str = "", market: str = "", account: str = ACCOUNT
    ) -> str:
        target: dict[str, Any] = {"CapacityReservationTarget": {"CapacityReservationId": reservation.id}}
        if preference:
            target["CapacityReservationPreference"] = preference
        market_options = {"InstanceMarketOptions": {"MarketType": market}} if market else {}
        return self.template(account, CapacityReservationSpecification=target, **market_options)

    def fleet(
        self,
        *configs: dict[str, Any],
        count: int = 1,
        kind: str = "on-demand",
        account: str = ACCOUNT,
        usage: str = "",
        **params: Any,
    ) -> dict[str, Any]:
        options = {"CapacityReservationOptions": {"UsageStrategy": usage}} if usage else {}
        if kind == "on-demand":
            params.setdefault("OnDemandOptions", {"AllocationStrategy": "lowest-price", **options})
        return self.call(
            "CreateFleet",
            account,
            Type="instant",
            LaunchTemplateConfigs=list(configs),
            TargetCapacitySpecification={"DefaultTargetCapacityType": kind, "TotalTargetCapacity": count},
            **params,
        )

    def launched(self, answer: dict[str, Any]) -> list[Instance]:
        """The instances of a CreateFleet answer, in their current state."""
        return [self.state.instances[i] for group in answer["Instances"] for i in group["InstanceIds"]]

    def launch(self, count: int = 1, **data: Any) -> list[Instance]:
        """Launches on-demand m5.large instances in zone a."""
        return self.launched(self.fleet(config(self.template(**data), "m5.large/a"), count=count))


def config(template: str, *pools: str, **fields: Any) -> dict[str, Any]:
    """A launch template config: pools are written type/zone, such as m5.large/a."""
    overrides = []
    for pool in pools:
        instance_type, _, zone = pool.partition("/")
        overrides.append({"InstanceType": instance_type, "AvailabilityZone": f"us-west-2{zone}", **fields})
    specification = {"LaunchTemplateName": template, "Version": "$Latest"}
    return {"LaunchTemplateSpecification": specification, "Overrides": overrides}


def errors(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """The pool and the code of every error of a fleet."""
    return [
        (_pool(error["LaunchTemplateAndOverrides"]["Overrides"]), error["ErrorCode"])
        for error in answer["Errors"]
    ]


def pools(answer: dict[str, Any]) -> dict[str, int]:
    """The number of launched instances of a fleet by pool."""
    return {
        _pool(group["LaunchTemplateAndOverrides"]["Overrides"]): len(group["InstanceIds"])
        for group in answer["Instances"]
    }


def _pool(override: dict[str, Any]) -> str:
    return f"{override['InstanceType']}/{override['AvailabilityZone'][-1]}"
