"""Label and field selectors, and the fields that they support."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from holdfast.api import patterns
from holdfast.sim.api.schema.status import bad_request
from holdfast.sim.api.storage.store import NODE_NAME, Stored

Test = Callable[[Stored], bool]

_KEY: Final = re.compile(patterns.QUALIFIED_NAME[1:-1])
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SET: Final = re.compile(r"(?P<key>\S+)\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^=!<>\s]+)\s*(?P<word>==|=|!=)\s*(?P<value>[^=!<>\s]*)")
_COMPARED: Final = re.compile(r"(?P<key>[^=!<>\s]+)\s*(?P<word><|>)\s*(?P<value>-?\d+)")
_COMMA: Final = re.compile(r",(?![^(]*\))")
_FIELD: Final = re.compile(r"(?P<key>[\w.\-/\[\]]+)(?P<word>==|=|!=)(?P<value>(?:\\.|[^\\=,])*)")

# By bucket, in addition to name and namespace.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "/pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "/nodes": ("spec.unschedulable",),
    "/namespaces": ("status.phase",),
    "/secrets": ("type",),
    "/events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "/replicationcontrollers": ("status.replicas",),
    "apps/replicasets": ("status.replicas",),
    "batch/jobs": ("status.successful",),
    "certificates.k8s.io/certificatesigningrequests": ("spec.signerName",),
    "resource.k8s.io/resourceslices": ("spec.nodeName", "spec.driver"),
}
_FLAGS: Final = frozenset({"spec.unschedulable", "spec.hostNetwork"})  # false when unset


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector. `name` is set if it can match only one object, `node` if it can match only those of one node."""

    tests: tuple[Test, ...] = ()
    name: str = ""
    node: str = ""

    def matches(self, stored: Stored | None) -> bool:
        return stored is not None and all(test(stored) for test in self.tests)


def selectable(bucket: str, custom: Iterable[str] = ()) -> tuple[str, ...]:
    """The fields in addition to name and namespace."""
    return (*_FIELDS.get(bucket, ()), *custom)


def field_values(value: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """The values of an object's selectable fields, as strings."""
    return {name: _field_text(value, name, _steps(name)) for name in names}


def parse(labels: str, fields: str, names: Iterable[str], rename: Callable[[str], str] = str) -> Selector:
    """The selector of a request; raises Refused if it is malformed."""
    tests, name, node = list(_label_tests(labels)), "", ""
    for requirement in _split_fields(fields):
        match = _FIELD.fullmatch(requirement)
        if match is None:
            raise bad_request(f"unable to parse field selector: invalid selector: '{requirement[:100]}'")
        key, value = match["key"], re.sub(r"\\(.)", r"\1", match["value"])
        equal = match["word"] != "!="
        if key == "metadata.name" and equal:
            name = value
        if key == NODE_NAME and equal:
            node = value
        tests.append(_field_test(key, rename(key), value, equal=equal, known=names))
    return Selector(tuple(tests), name, node)


def label_test(selector: Mapping[str, Any] | None) -> Callable[[Mapping[str, str]], bool]:
    """Tests labels against a LabelSelector of an object; an empty one matches everything, None nothing."""
    if selector is None:
        return lambda _labels: False
    tests = [_equals(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], frozenset(expression.get("values") or ())
        tests.append(_EXPRESSIONS.get(expression["operator"], _never)(key, values))
    return lambda labels: all(test(labels) for test in tests)


def _label_tests(text: str) -> Iterable[Test]:
    if not text.strip():
        return
    for part in _COMMA.split(text):
        yield _on_labels(_label_requirement(part.strip()))


def _on_labels(test: Callable[[Mapping[str, str]], bool]) -> Test:
    return lambda stored: test(stored.labels)


def _label_requirement(part: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.fullmatch(part):
        values = frozenset(_value(value.strip()) for value in match["values"].split(","))
        operator = "In" if match["word"] == "in" else "NotIn"
        return _EXPRESSIONS[operator](_key(match["key"]), values)
    if match := _EQUAL.fullmatch(part):
        one = frozenset({_value(match["value"])})
        return _EXPRESSIONS["NotIn" if match["word"] == "!=" else "In"](_key(match["key"]), one)
    if match := _COMPARED.fullmatch(part):
        return _compared(_key(match["key"]), match["word"], int(match["value"][:20]))
    if part.startswith("!"):
        return _EXPRESSIONS["DoesNotExist"](_key(part[1:].strip()), frozenset())
    return _EXPRESSIONS["Exists"](_key(part), frozenset())


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise bad_request(f'unable to parse requirement: invalid label key "{text[:100]}"')
    return text


def _value(text: str) -> str:
    if not _VALUE.fullmatch(text) or len(text) > 63:  # noqa: PLR2004 - the longest label
        raise bad_request(f'unable to parse requirement: invalid label value: "{text[:100]}"')
    return text


def _equals(key: str, value: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda labels: labels.get(key) == value


def _compared(key: str, word: str, bound: int) -> Callable[[Mapping[str, str]], bool]:
    def test(labels: Mapping[str, str]) -> bool:
        text = labels.get(key, "")
        if not re.fullmatch(r"-?\d{1,19}", text):
            return False
        return int(text) < bound if word == "<" else int(text) > bound

    return test


def _never(_key: str, _values: frozenset[str]) -> Callable[[Mapping[str, str]], bool]:
    return lambda _labels: False


_EXPRESSIONS: Final[Mapping[str, Callable[[str, frozenset[str]], Callable[[Mapping[str, str]], bool]]]] = {
    "In": lambda key, values: lambda labels: labels.get(key) in values,
    "NotIn": lambda key, values: lambda labels: labels.get(key) not in values,
    "Exists": lambda key, _values: lambda labels: key in labels,
    "DoesNotExist": lambda key, _values: lambda labels: key not in labels,
}


def _split_fields(text: str) -> list[str]:
    parts = re.split(r"(?<!\\),", text)
    return [part.strip() for part in parts if part.strip()]


def _field_test(key: str, stored_key: str, value: str, *, equal: bool, known: Iterable[str]) -> Test:
    if key == "metadata.name":
        return lambda stored: (stored.name == value) == equal
    if key == "metadata.namespace":
        return lambda stored: (stored.namespace == value) == equal
    if stored_key not in known:
        raise bad_request(f"field label not supported: {key}")
    return lambda stored: (stored.fields[stored_key] == value) == equal


@lru_cache(maxsize=256)
def _steps(name: str) -> tuple[str, ...]:
    return tuple(name.split("."))


def _field_text(value: Mapping[str, Any], name: str, steps: tuple[str, ...]) -> str:
    found: Any = value
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    if type(found) is str:
        return found
    if name == "source":  # the component of an Event
        found = found.get("component") if isinstance(found, dict) else None
    if isinstance(found, bool) or (found is None and name in _FLAGS):
        return "true" if found else "false"
    return "" if found is None else str(found)
