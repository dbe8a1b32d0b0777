"""Evaluates an IAM identity policy, as the AWS documentation describes the evaluation logic. Pure.

Called by `sim.guard` for every access of a call. An explicit deny has priority over any allow; without an allow the
access is denied. An unknown element or operator is an error when the policy is read, so that no condition is skipped.
"""

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Context = Mapping[str, tuple[str, ...]]
"""The condition keys of a request, with their values. A key without a value is absent."""

_ELEMENTS: Final = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
_EFFECTS: Final = ("Allow", "Deny")
_VERSION: Final = "2012-10-17"
_IF_EXISTS: Final = "IfExists"
_ARN_PARTS: Final = 6


class Decision(enum.Enum):
    ALLOWED = "allowed"
    EXPLICITLY_DENIED = "an explicit deny in an identity-based policy"
    IMPLICITLY_DENIED = "no identity-based policy allows the action"


class InvalidPolicy(Exception):
    """The policy has an element that IAM does not allow, or that is not simulated."""


@dataclass(frozen=True, slots=True)
class Access:
    """One action on one resource, which IAM allows or denies."""

    action: str  # service:Operation
    resource: str  # an ARN, or * for an action without resource types
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Condition:
    """One key of one operator."""

    key: str
    matches: Callable[[str], bool]  # whether one value satisfies the operator
    quantifier: str = ""  # ForAllValues, ForAnyValue or empty
    without_key: bool = False  # the result for an absent key

    def holds(self, context: Context) -> bool:
        values = context.get(self.key, ())
        if self.quantifier == "ForAllValues":
            return all(map(self.matches, values))
        if not values:
            return self.without_key
        return any(map(self.matches, values))


@dataclass(frozen=True, slots=True)
class _Presence:
    """The operator Null."""

    key: str
    absent: bool

    def holds(self, context: Context) -> bool:
        return bool(context.get(self.key)) is not self.absent


@dataclass(frozen=True, slots=True)
class Statement:
    sid: str
    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    not_actions: bool
    not_resources: bool
    conditions: tuple[_Condition | _Presence, ...]

    def matches(self, access: Access) -> bool:
        action, context = access.action.lower(), {key.lower(): v for key, v in access.context.items()}
        return (
            any(_glob(pattern.lower(), action) for pattern in self.actions) is not self.not_actions
            and any(_arn_glob(pattern, access.resource) for pattern in self.resources)
            is not self.not_resources
            and all(condition.holds(context) for condition in self.conditions)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    statements: tuple[Statement, ...]

    def decide(self, access: Access) -> Decision:
        matching = [statement for statement in self.statements if statement.matches(access)]
        if not all(statement.allows for statement in matching):
            return Decision.EXPLICITLY_DENIED
        return Decision.ALLOWED if matching else Decision.IMPLICITLY_DENIED


def read(document: Mapping[str, Any]) -> Policy:
    """The policy of a JSON document. Raises InvalidPolicy."""
    if document.get("Version") != _VERSION or not document.keys() <= {"Version", "Id", "Statement"}:
        raise InvalidPolicy(f"a policy has Version {_VERSION}, Statement, and no other element than Id")
    statements = document.get("Statement", ())
    return Policy(
        tuple(map(_statement, [statements] if isinstance(statements, Mapping) else statements)),
    )


def _statement(raw: Mapping[str, Any]) -> Statement:
    sid = raw.get("Sid", "")
    unknown = raw.keys() - _ELEMENTS
    if unknown or raw.get("Effect") not in _EFFECTS:
        raise InvalidPolicy(f"statement {sid!r}: unknown {sorted(unknown)}, effect {raw.get('Effect')}")
    if ("Action" in raw) is ("NotAction" in raw) or ("Resource" in raw) is ("NotResource" in raw):
        raise InvalidPolicy(
            f"statement {sid!r} must have one of Action and NotAction, and one of Resource and NotResource"
        )
    return Statement(
        sid=sid,
        allows=raw["Effect"] == "Allow",
        actions=_values(raw.get("Action", raw.get("NotAction"))),
        resources=_values(raw.get("Resource", raw.get("NotResource"))),
        not_actions="NotAction" in raw,
        not_resources="NotResource" in raw,
        conditions=tuple(
            _condition(operator, key, _values(values))
            for operator, keys in raw.get("Condition", {}).items()
            for key, values in keys.items()
        ),
    )


def _values(given: Any) -> tuple[str, ...]:
    """IAM accepts one value instead of a list; booleans become strings."""
    values = tuple(
        str(value).lower() if isinstance(value, bool) else value
        for value in (given if isinstance(given, list) else [given])
    )
    if not values or not all(isinstance(value, str) for value in values):
        raise InvalidPolicy(f"{given!r} is neither a string nor a list of strings")
    if any("${" in value for value in values):
        raise InvalidPolicy(f"policy variables are not simulated: {given!r}")
    return values


# --- Conditions -------------------------------------------------------------------------------------


class _Operator(NamedTuple):
    """How one value of a key is compared with one value of the policy."""

    compare: Callable[[str, str], bool]  # the policy's value, then the request's
    negated: bool = False


def _condition(name: str, key: str, wanted: tuple[str, ...]) -> _Condition | _Presence:
    quantifier, colon, operator = name.rpartition(":")
    if colon and quantifier not in ("ForAllValues", "ForAnyValue"):
        raise InvalidPolicy(f"unknown set operator {quantifier!r}")
    if operator == "Null" and not colon:
        return _Presence(key.lower(), wanted == ("true",))
    known = _OPERATORS.get(operator.removesuffix(_IF_EXISTS))
    if known is None:
        raise InvalidPolicy(f"the operator {name!r} is not simulated")
    return _Condition(
        key.lower(),
        lambda value: any(known.compare(one, value) for one in wanted) is not known.negated,
        quantifier,
        without_key=operator.endswith(_IF_EXISTS) or (known.negated and not colon),
    )


def _equal(wanted: str, value: str) -> bool:
    return wanted == value


def _equal_ignoring_case(wanted: str, value: str) -> bool:
    return wanted.lower() == value.lower()


def _glob(pattern: str, value: str) -> bool:
    return _regex(pattern, ".*", ".").fullmatch(value) is not None


def _arn_like(pattern: str, value: str) -> bool:
    """Compares each of the six parts."""
    patterns, values = pattern.split(":", _ARN_PARTS - 1), value.split(":", _ARN_PARTS - 1)
    return len(patterns) == len(values) == _ARN_PARTS and all(map(_glob, patterns, values))


def _arn_glob(pattern: str, resource: str) -> bool:
    """Matches like the element Resource: an asterisk at the end of a part also matches further parts."""
    return _regex(re.sub(r"\*(?=:|$)", "\0", pattern), "[^:]*", "[^:]").fullmatch(resource) is not None


def _regex(pattern: str, many: str, one: str) -> re.Pattern[str]:
    wildcards: Iterable[str] = ({"*": many, "?": one, "\0": ".*"}.get(c, re.escape(c)) for c in pattern)
    return re.compile("".join(wildcards), re.DOTALL)


_OPERATORS: Final = {
    "StringEquals": _Operator(_equal),
    "StringNotEquals": _Operator(_equal, negated=True),
    "StringEqualsIgnoreCase": _Operator(_equal_ignoring_case),
    "StringNotEqualsIgnoreCase": _Operator(_equal_ignoring_case, negated=True),
    "StringLike": _Operator(_glob),
    "StringNotLike": _Operator(_glob, negated=True),
    "ArnEquals": _Operator(_arn_like),  # IAM treats both names in the same way
    "ArnLike": _Operator(_arn_like),
    "ArnNotEquals": _Operator(_arn_like, negated=True),
    "ArnNotLike": _Operator(_arn_like, negated=True),
    "Bool": _Operator(_equal_ignoring_case),
}
