"""Faults of EC2, scheduled or random.

A scenario passes a list of faults to `Ec2`; each module queries the faults that it can apply. Random numbers come from
the region's id source, so a seed replays every fault. A fault with a limited number is used up when it is applied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.ports import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    from_s: int = 0
    until_s: int = 1 << 62
    chance: float = 1.0
    times: int | None = None  # applied at most so often


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCall(Fault):
    """A fault of one operation; "" is every operation."""

    operation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(OfCall):
    """The call takes effect and its response is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled(OfCall):
    """RequestLimitExceeded, independent of the buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied(OfCall):
    """UnauthorizedOperation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(OfCall):
    """InternalError, without effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale(OfCall):
    """A Describe call returns the state of that long ago."""

    lag_s: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCapacity(Fault):
    """A pool has no capacity. "" means any type and zone, and any market but reserved: reserved capacity exists when
    the rest is exhausted."""

    instance_type: str = ""
    zone_id: str = ""
    market: str = ""  # on-demand, spot or reserved; empty: all but reserved
    code: str = "InsufficientInstanceCapacity"  # or another, such as a quota's or RequestLimitExceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(Fault):
    """Instances that are not simulated take slots of a reservation just before a launch reads it."""

    reservation_id: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial(Fault):
    """A fleet launches at most so many instances."""

    at_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverBoots(Fault):
    """An instance stays pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(Fault):
    """An instance runs and never responds; its status check fails after a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFails(Fault):
    """The host of an instance fails its status check after a while; the instance keeps running."""

    after_s: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Dies(Fault):
    """An instance terminates by itself."""

    after_s: int = 60


F = TypeVar("F", bound=Fault)


class Faults:
    def __init__(self, rules: Sequence[Fault], ids: Ids) -> None:
        self._rules = list(rules)
        self._left = [rule.times for rule in self._rules]
        self._ids = ids

    def add(self, fault: Fault) -> None:
        self._rules.append(fault)
        self._left.append(fault.times)

    def remove(self, fault: Fault) -> None:
        index = self._rules.index(fault)
        del self._rules[index], self._left[index]

    def strikes(self, kind: type[F], now_s: int, fits: Callable[[F], bool] = lambda _: True) -> F | None:
        """The first active fault of a kind."""
        if not self._rules:
            return None
        for index, rule in enumerate(self._rules):
            if not isinstance(rule, kind) or not rule.from_s <= now_s < rule.until_s or not fits(rule):
                continue
            left = self._left[index]
            if left == 0 or (rule.chance < 1 and self._ids.jitter(1.0) >= rule.chance):
                continue
            if left is not None:
                self._left[index] = left - 1
            return rule
        return None

    def strikes_call(self, kind: type[F], operation: str, now_s: int) -> F | None:
        return self.strikes(
            kind, now_s, lambda rule: isinstance(rule, OfCall) and rule.operation in {"", operation}
        )
