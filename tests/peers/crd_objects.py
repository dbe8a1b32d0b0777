"""Random objects and changes for CRDs, from a seed: combined cases of tests/crds, then mutated with the schema.

Called by `e2e_crds`. Half of the objects are just valid; the other half are just invalid.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from crd_tool import objects

Json = dict[str, Any]

BASES: Final[Mapping[str, Json]] = {
    **{kind: file["base"] for kind, file in objects.files().items()},
    "NodeOverlay": {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "spec": {
            "requirements": [
                {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7i"]}
            ],
            "priceAdjustment": "-10%",
            "weight": 5,
        },
    },
    "CapacityBuffer": {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"namespace": "default"},
        "spec": {"podTemplateRef": {"name": "room"}, "replicas": 3},
    },
}
_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    1,
    101,
    1.5,
    "",
    "x",
    "10%",
    "5m",
    "Never",
    "a b",
    "1Gi",
    [],
    {},
    [{}],
    ["x"],
)


class Change(NamedTuple):
    """A stored object and its update. Without an old object it is a create."""

    old: Json | None
    new: Json


def base(kind: str) -> Json:
    return copy.deepcopy(BASES[kind])


def olds(kind: str) -> list[Json]:
    """Objects to store: a plain one, and one for each rule that compares."""
    cases = objects.files().get(kind, {"cases": []})["cases"]
    patches = [{}, *(case["old"] for case in cases if "old" in case)]
    return [objects.merge(base(kind), patch) for patch in patches]


def changes(dice: Random, kind: str, schema: Json, stored: Sequence[Json], count: int) -> Iterator[Change]:
    """One in three updates a stored object. None has a list where a time should be: the real server accepts it, because of a
    defect of its validator."""
    while count:
        old = dice.choice(stored) if stored and dice.random() < 1 / 3 else None
        new = copy.deepcopy(old) if old is not None else base(kind)
        for patch in _patches(dice, kind):
            new = objects.merge(new, copy.deepcopy(patch))
        for _ in range(dice.choice((0, 1, 1, 2))):
            _mutate(dice, new, schema)
        if not _has_list_for_time(new, schema):
            yield Change(old, new)
            count -= 1


def _has_list_for_time(value: Json, schema: Json) -> bool:
    return any(
        isinstance(child, list) and "format" in (below.get("properties") or {}).get(name, {})
        for container, below in _containers(value, schema)
        if isinstance(container, dict)
        for name, child in container.items()
    )


def _patches(dice: Random, kind: str) -> list[Json]:
    cases = objects.files().get(kind, {"cases": []})["cases"]
    good = [patch for case in cases for patch in case["good"]]
    bad = [patch for case in cases for patch in case["bad"]]
    chosen = dice.sample(good, min(len(good), dice.choice((0, 1, 2))))
    return chosen + (dice.sample(bad, 1) if bad and dice.random() < 0.4 else [])


def _mutate(dice: Random, value: Json, schema: Json) -> None:
    """One change in the spec: a field is removed, added, or gets another value."""
    containers = list(_containers(value.get("spec"), schema["properties"].get("spec", {})))
    if not containers:
        return
    container, below = dice.choice(containers)
    if isinstance(container, list):
        _mutate_list(dice, container, below)
        return
    known = below.get("properties") or {}
    match dice.randrange(4):
        case 0 if container:
            del container[dice.choice(sorted(container))]
        case 1 if container:
            container[dice.choice(sorted(container))] = _odd(dice)
        case 2 if known:
            name = dice.choice(sorted(known))
            container[name] = _value(dice, known[name], 3)
        case _:
            of_rest = below.get("additionalProperties")
            name = dice.choice(("extra", "team", "karpenter.sh/x", "a b"))
            container[name] = _value(dice, of_rest, 3) if isinstance(of_rest, dict) else _odd(dice)


def _mutate_list(dice: Random, container: list[Any], below: Json) -> None:
    if container and dice.random() < 0.5:
        container.append(copy.deepcopy(dice.choice(container)))
    elif container and dice.random() < 0.5:
        container.pop(dice.randrange(len(container)))
    else:
        container.append(_value(dice, below.get("items", {}), 3))


def _containers(value: Any, schema: Json) -> Iterator[tuple[Any, Json]]:
    """Every object and list in a value, with its schema."""
    if isinstance(value, dict):
        yield value, schema
        rest = schema.get("additionalProperties")
        for name, child in value.items():
            below = (schema.get("properties") or {}).get(name, rest if isinstance(rest, dict) else {})
            yield from _containers(child, below)
    elif isinstance(value, list):
        yield value, schema
        for child in value:
            yield from _containers(child, schema.get("items", {}))


def _odd(dice: Random) -> Any:
    return copy.deepcopy(dice.choice(_ODD))


def _value(dice: Random, schema: Json, depth: int) -> Any:
    """A value of the type of the schema, mostly at its bounds."""
    if schema.get("enum") and dice.random() < 0.8:
        return dice.choice(schema["enum"])
    if dice.random() < 0.1:
        return _odd(dice)
    match schema.get("type"):
        case "object" if depth:
            chosen = dice.sample(
                sorted(known := schema.get("properties") or {}), min(len(known), dice.randrange(4))
            )
            names = {*chosen, *(schema.get("required") or ())} if dice.random() < 0.8 else chosen
            return {name: _value(dice, known[name], depth - 1) for name in sorted(names)}
        case "array" if depth:
            most = min(schema.get("maxItems", 3), 3) + (dice.random() < 0.1)
            return [_value(dice, schema.get("items", {}), depth - 1) for _ in range(dice.randint(0, most))]
        case "integer" | "number":
            low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", 100))
            return dice.choice((low, high, low - 1, high + 1, (low + high) // 2))
        case "boolean":
            return dice.random() < 0.5
        case "object" | "array":
            return {} if schema["type"] == "object" else []
    return dice.choice(
        ("", "x", "default", "10%", "5m", "720h", "Never", "1Gi", "100", "m7i", "a" * 64, "sg-1", "v1")
    )
