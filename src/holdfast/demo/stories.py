"""The stories that the demo can show, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from holdfast.demo import story, training
from holdfast.demo.environment import Environment, Setup


class Story(Protocol):
    async def start(self) -> None:
        """Creates the first objects."""

    @property
    def is_ready(self) -> bool:
        """Whether all NodePools are Ready, so that nodes can be launched."""

    async def react(self) -> None:
        """Does what programs do that the demo plays, also without steps."""

    async def advance(self, elapsed_s: float) -> None:
        """Runs the steps that are due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    setup: Setup
    make: Callable[[Environment, Callable[[str], None]], Story]
    commands: tuple[str, ...]  # of Holdfast, to try
    tips: tuple[str, ...]  # other commands to try
    first_tips: tuple[str, ...] = ()  # before these, if the story has no steps
    without_steps: str  # what a user does if the story has no steps


DEFAULT: Final = "reservations"
STORIES: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        DEFAULT: Kind(
            setup=story.SETUP,
            make=story.Story,
            commands=("reservations",),
            tips=(
                "kubectl get nodeclaims -o wide",
                "kubectl scale deployment web --replicas=8",
                "kubectl get events --field-selector type=Warning",
                "aws ec2 describe-capacity-reservations",
            ),
            first_tips=(
                "kubectl scale deployment web --replicas=3     # three slots are reserved",
                "kubectl scale deployment api --replicas=2     # two slots are reserved",
                "kubectl scale deployment train --replicas=1   # 8 GPUs, in a capacity block",
            ),
            without_steps="All NodePools are ready; scale the workloads with kubectl",
        ),
        "training": Kind(
            setup=training.SETUP,
            make=training.TrainingStory,
            commands=("reservations", "explain provisioningrequest pretrain"),
            tips=(
                "kubectl get provisioningrequests,jobs,podgroups,pods",
                "kubectl describe provisioningrequest pretrain",
                "aws ec2 describe-capacity-reservations",
            ),
            without_steps="All NodePools are ready; create a suspended Job with the label "
            "kueue.x-k8s.io/queue-name: training",
        ),
    }
)
