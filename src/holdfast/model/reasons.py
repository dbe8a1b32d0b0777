"""The reasons that scheduling and disruption give: `Reason`, its codes, and the sentence that a user reads."""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.model import wording


class ReasonCode(enum.StrEnum):
    """Why a pod is not placed, or why it is not in a reservation. The values do not change between releases."""

    # of pods that are not placed
    NO_NODE_POOL = "NoNodePool"
    INVALID = "Invalid"
    TAINT = "Taint"
    REQUIREMENTS = "Requirements"
    RESOURCES = "Resources"
    NO_SUCH_RESOURCE = "NoSuchResource"
    OFFERINGS = "Offerings"
    TOPOLOGY = "Topology"
    HOST_PORTS = "HostPorts"
    VOLUMES = "Volumes"
    LIMITS = "Limits"
    MIN_VALUES = "MinValues"
    WAITS_FOR_SLOT = "WaitsForSlot"
    NOT_BOUND = "NotBound"
    EXCLUDES_NODE_POOLS = "ExcludesNodePools"
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_DOES_NOT_FIT = "GangDoesNotFit"
    BEHIND_GANG = "BehindGang"
    HOLDS_SLOTS = "HoldsSlots"
    USES_REQUEST = "UsesProvisioningRequest"
    # of pods that did not get a reserved slot
    EXCLUDES_RESERVED = "ExcludesReserved"
    NO_RESERVATION_SELECTED = "NoReservationSelected"
    WRONG_INSTANCE_TYPE = "WrongInstanceType"
    WRONG_ZONE = "WrongZone"
    WRONG_PLATFORM = "WrongPlatform"
    WRONG_RESERVATION = "WrongReservation"
    TOO_SMALL = "TooSmall"
    FULL = "Full"
    HELD = "Held"
    NOT_STARTED = "NotStarted"
    DRAINING = "Draining"
    ENDS_TOO_SOON = "EndsTooSoon"
    UNHEALTHY = "Unhealthy"
    POOL_EXCLUDES_RESERVED = "PoolExcludesReserved"
    EXISTING_NODE = "ExistingNode"
    SHARED_NODE = "SharedNode"
    HEAVIER_POOL = "HeavierPool"
    PREFERENCE = "Preference"
    NOT_COMPARED = "NotCompared"
    # of both: no constraint is in the way, and the packing chose otherwise
    PACKING = "Packing"


class BlockedCode(enum.StrEnum):
    """Why a node is not disrupted. The values do not change between releases."""

    NOT_OURS = "NotOurs"
    QUEUED = "Queued"
    REBOOTING = "Rebooting"
    UNINITIALIZED = "Uninitialized"
    DELETING = "Deleting"
    UNREADABLE = "Unreadable"
    NOMINATED = "Nominated"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    DO_NOT_REPAIR = "DoNotRepair"
    NO_NODE_POOL = "NoNodePool"
    POD_DO_NOT_DISRUPT = "PodDoNotDisrupt"
    BUDGET_OF_PODS = "PodDisruptionBudget"
    BUDGET = "Budget"
    NOTHING_TO_DO = "NothingToDo"
    STATIC = "Static"
    UNKNOWN_TYPE = "UnknownInstanceType"
    NO_LABELS = "MissingLabels"
    CONSOLIDATION_OFF = "ConsolidationOff"
    WHEN_EMPTY = "WhenEmptyOnly"
    UNSETTLED = "NotYetConsolidatable"
    COOLING_DOWN = "CoolingDown"
    PODS_WITHOUT_PLACE = "PodsWithoutPlace"
    ON_STARTING_NODE = "OnStartingNode"
    NOT_CHEAPER = "NotCheaper"
    TOO_MANY = "TooManyReplacements"
    SPOT_TO_SPOT = "SpotToSpot"
    MIN_VALUES = "MinValues"
    BALANCE = "NotWorthIt"
    MOVED_INTO_SLOT = "MovedIntoSlot"
    WAITS_FOR_SLOT = "WaitsForSlot"
    DRAIN_NEVER_ENDS = "DrainNeverEnds"
    BREAKER = "TooManyUnhealthy"
    TOLERATED = "Tolerated"
    NOT_REACHED = "NotReached"
    UNCHANGED = "Unchanged"
    ANOTHER_FIRST = "AnotherFirst"


# What a reason is about.
NODE_POOL: Final = "NodePool"
RESERVATION: Final = "reservation"
BLOCK: Final = "block"  # a reservation that ends, and whose instances end with it
CLAIM: Final = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pod is not placed or a node is not disrupted: a code for programs, and a text for users.

    A text does not name subjects that have a kind, so that the sentence names each of them once. The text about
    reservations is a predicate ("has no free slot")."""

    code: ReasonCode | BlockedCode
    text: str
    subjects: tuple[
        str, ...
    ] = ()  # what it is about: one NodePool, or every reservation with the same reason
    kind: str = ""  # of the subjects

    @property
    def subject(self) -> str:
        """The first subject, or empty."""
        return self.subjects[0] if self.subjects else ""

    @property
    def sentence(self) -> str:
        return sentence(self.text, self.subjects, self.kind)


def sentence(text: str, subjects: Sequence[str], kind: str, more: int = 0) -> str:
    """A reason as a sentence. `more` is how many subjects are left out. The text names subjects without a kind."""
    if not kind:
        return text
    number = len(subjects) + more
    about = f"{wording.plural(kind, number)} {wording.listed(subjects, more)}"
    if kind not in (RESERVATION, BLOCK):
        return f"{about}: {text}"
    return f"{about} {text}" if number == 1 else f"{about}: each {text}"


def sentences(reasons: Iterable[Reason]) -> str:
    return "; ".join(reason.sentence for reason in reasons)
