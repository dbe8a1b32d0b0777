"""The result of one check of `holdfast doctor`, and values that may not have been read.

A check is a pure function from what was read to results. A read that failed is a value too, so that it stops no other
check. Invariant: a warning or an error has a fix.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from holdfast import errors

T = TypeVar("T")

Read: TypeAlias = T | errors.HoldfastError
"""What a read returned, or the error that it ended with."""


class Level(enum.StrEnum):
    OK = "ok"
    INFO = "info"  # could not be checked, or is good to know
    WARNING = "warning"  # works, but not as it could
    ERROR = "error"  # nodes cannot be launched, or the start fails


PROBLEMS: Final = frozenset({Level.WARNING, Level.ERROR})


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str  # a short name that stays the same in later versions
    level: Level
    object: str  # what was checked: NodePool/default, Deployment/kube-system/karpenter
    found: str
    fix: str = ""

    def __post_init__(self) -> None:
        assert self.fix or self.level not in PROBLEMS, f"{self.check} needs a fix: {self.found}"


def ok(check: str, about: str, found: str) -> CheckResult:
    return CheckResult(check, Level.OK, about, found)


def info(check: str, about: str, found: str, fix: str = "") -> CheckResult:
    return CheckResult(check, Level.INFO, about, found, fix)


def warning(check: str, about: str, found: str, fix: str) -> CheckResult:
    return CheckResult(check, Level.WARNING, about, found, fix)


def error(check: str, about: str, found: str, fix: str) -> CheckResult:
    return CheckResult(check, Level.ERROR, about, found, fix)


def has_errors(results: Iterable[CheckResult]) -> bool:
    return any(one.level is Level.ERROR for one in results)
