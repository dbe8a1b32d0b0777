"""The story of the duel: what happens to the cluster and to EC2, and when. The same for both programs.

Each step changes Deployments, a NodePool or the simulated EC2, without regard to what the program did. Only the spot
interruption depends on it, because it needs a spot instance: it takes the oldest one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.duel import settings
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.region_state import RegionState
from peers.arena import Arena


@dataclass
class Story:
    """The steps so far."""

    arena: Arena
    scale: float = 1.0  # of all times
    began_s: float = field(default_factory=time.monotonic)
    interrupted: set[str] = field(default_factory=set)  # ids of spot instances
    taken: int = 0
    unmanaged: list[str] = field(default_factory=list)  # ids of instances that no autoscaler launched
    unmanaged_in_slot: bool = False
    done: list[tuple[float, str]] = field(default_factory=list)  # when each step was done

    @property
    def region(self) -> RegionState:
        return self.arena.sandbox.cloud.ec2.region

    def passed_s(self) -> float:
        return time.monotonic() - self.began_s

    def run(self) -> None:
        """Does every step at its time, and returns at the end of the story."""
        for step in STEPS:
            self._wait(step.at_s)
            step.act(self)
            self.done.append((round(self.passed_s(), 1), step.name))
        self._wait(settings.SECONDS)

    def _wait(self, at_s: float) -> None:
        until_s = at_s * self.scale
        self.arena.until(lambda: self.passed_s() >= until_s, "the time of the next step", until_s + 60)

    def deploy(self, app: str, replicas: int) -> None:
        self.arena.create(settings.deployment(app, replicas))


def begin(story: Story) -> None:
    story.deploy("web", 3)
    story.deploy("api", 3)
    story.deploy("batch", 3)
    now_s = int(time.time())
    story.arena.now(
        lambda: control.add_reservation(
            story.region,
            owner=settings.OWN,
            instance_type=settings.BLOCK_TYPE,
            zone_id=settings.ZONE_A_ID,
            total=settings.BLOCK_SLOTS,
            id=settings.BLOCK,
            kind="capacity-block",
            criteria="targeted",
            tags={settings.TAG: "train"},
            start_s=now_s + round(BLOCK_STARTS_S * story.scale),
            end_s=now_s + round(BLOCK_DRAINS_S * story.scale) + settings.BLOCK_LEAD_S,
        )
    )


def start_training(story: Story) -> None:
    story.deploy("train", settings.BLOCK_SLOTS)


def take_slots(story: Story) -> None:
    def act() -> int:
        before = story.region.reservations[settings.SHARED].elsewhere
        control.take(story.region, settings.SHARED, settings.TAKEN_SLOTS)
        return story.region.reservations[settings.SHARED].elsewhere - before

    story.taken = story.arena.now(act)


def release_slots(story: Story) -> None:
    story.arena.now(lambda: control.give(story.region, settings.SHARED, story.taken))


def add_reservation(story: Story) -> None:
    story.arena.now(
        lambda: control.add_reservation(
            story.region,
            owner=settings.OWN,
            instance_type="m5.large",
            zone_id=settings.ZONE_C_ID,
            total=settings.SECOND_SLOTS,
            id=settings.SECOND,
            criteria="targeted",
            tags={settings.TAG: "web"},
        )
    )


def launch_unmanaged(story: Story) -> None:
    """An instance outside of the cluster that matches the open reservation, so EC2 puts it there."""
    images = story.region.setup.images
    linux = next(one.id for one in images if one.architecture == "x86_64" and one.platform != "Windows")
    answer = story.arena.aws(
        "RunInstances",
        ImageId=linux,
        InstanceType="m5.xlarge",
        MinCount=1,
        MaxCount=1,
        Placement={"AvailabilityZone": settings.ZONE_A},
    )
    story.unmanaged = [one["InstanceId"] for one in answer["Instances"]]
    story.unmanaged_in_slot = all(
        story.region.instances[one].reservation_id == settings.OPEN for one in story.unmanaged
    )


def terminate_unmanaged(story: Story) -> None:
    story.arena.aws("TerminateInstances", InstanceIds=story.unmanaged)


def interrupt_spot(story: Story) -> None:
    def act() -> None:
        spot = [one for one in story.region.instances if one.lifecycle == "spot" and one.state == "running"]
        for one in sorted(spot, key=lambda one: (one.launched_s, one.id))[:1]:
            control.interrupt_spot(story.region, one.id)
            story.interrupted.add(one.id)

    story.arena.now(act)


def drift(story: Story) -> None:
    labels = {settings.APP_LABEL: "web", settings.COLOUR_LABEL: "blue"}
    story.arena.patch("NodePool", "web", {"spec": {"template": {"metadata": {"labels": labels}}}})


def scaled(app: str, replicas: int) -> Callable[[Story], None]:
    return lambda story: story.arena.scale(app, replicas)


def nothing(_: Story) -> None:
    """EC2 acts by itself at this time."""


class Step(NamedTuple):
    at_s: int
    name: str
    act: Callable[[Story], None]


BLOCK_STARTS_S: Final = 20
BLOCK_DRAINS_S: Final = 165

STEPS: Final = (
    Step(0, "Deployments web (3 pods), api (3) and batch (3, on spot)", begin),
    Step(BLOCK_STARTS_S, "the capacity block starts", nothing),
    Step(25, "Deployment train (2 pods, each on a node of its own)", start_training),
    Step(35, "another account takes 2 slots of the shared reservation", take_slots),
    Step(40, "web 3 to 9", scaled("web", 9)),
    Step(60, "a second reservation for web appears (3 slots)", add_reservation),
    Step(80, "an instance that no NodePool launched takes a slot of the open reservation", launch_unmanaged),
    Step(85, "api 3 to 8: the heavier NodePool is full", scaled("api", 8)),
    Step(105, "EC2 interrupts a spot instance, with two minutes of warning", interrupt_spot),
    Step(130, "web 9 to 4", scaled("web", 4)),
    Step(155, "drift: the template of the NodePool web gets a label", drift),
    Step(BLOCK_DRAINS_S, "40 minutes before the end of the block: its nodes must be drained", nothing),
    Step(210, "the other account releases its slots", release_slots),
    Step(215, "web 4 to 9", scaled("web", 9)),
    Step(245, "the instance in the open reservation ends", terminate_unmanaged),
    Step(250, "api 8 to 3", scaled("api", 3)),
    Step(270, "web 9 to 5", scaled("web", 5)),
)
