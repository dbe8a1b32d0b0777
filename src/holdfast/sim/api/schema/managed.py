"""Field management: managedFields of every write, and server-side apply.

Called by `registry` for every write. A manager owns the fields that it set last. An apply that changes a field of
another manager is a conflict unless forced. An apply removes fields that only its manager owned and that it no longer
contains.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from holdfast.sim.api.schema import fieldsets
from holdfast.sim.api.schema.fieldsets import Path
from holdfast.sim.api.schema.shapes import Shape
from holdfast.sim.api.schema.status import Refused, bad_request

Json = dict[str, Any]

_NOBODYS: Final = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    }
)
_MANAGED: Final = "managedFields"


class Writer(NamedTuple):
    """The manager, the operation and the part of the object that a request writes."""

    manager: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str = ""

    @property
    def order(self) -> tuple[str, ...]:
        return (self.operation, self.manager, self.api_version, self.subresource)


class _Owned(NamedTuple):
    fields: frozenset[Path]
    time: str


Owners = dict[Writer, _Owned]
Mine = Callable[[Path], bool]


def after_create(value: Json, shape: Shape, writer: Writer, now: str, mine: Mine) -> list[Json]:
    """The managedFields of a new object. `mine` tests whether the request may own a field."""
    changed, _ = _difference({}, value, shape)
    return _write({writer: _Owned(frozenset(path for path in changed if mine(path)), now)})


def after_update(old: Json, new: Json, shape: Shape, writer: Writer, now: str) -> list[Json]:
    """The managedFields after a write that is neither a create nor an apply."""
    given = (new.get("metadata") or {}).get(_MANAGED)
    had = (old.get("metadata") or {}).get(_MANAGED)
    if given == [] and had:
        return []  # the client clears the list
    owners = _read(had if given is None else given)
    changed, removed = _difference(old, new, shape)
    if not changed and not removed:
        return _write(owners)
    mine = owners.get(writer)
    for other, owned in list(owners.items()):
        lost = removed if other == writer else removed | changed
        if not owned.fields.isdisjoint(lost):
            owners[other] = owned._replace(fields=owned.fields - lost)
    fields = owners[writer].fields if mine else frozenset()
    if not changed <= fields:  # a known set is written faster than a new one
        fields |= changed
    if mine is None or fields != mine.fields or changed:
        owners[writer] = _Owned(fields, now)
    return _write(owners)


def apply(
    live: Json,
    config: Json,
    shape: Shape,
    writer: Writer,
    *,
    now: str,
    mine: Mine,
    force: bool,
) -> Json:
    """The object after an apply. `mine` tests whether the request may own a field."""
    if (config.get("metadata") or {}).get(_MANAGED):
        raise bad_request("metadata.managedFields must be nil")
    owners = _read((live.get("metadata") or {}).get(_MANAGED))
    if live and not owners:
        everything, _ = _difference({}, live, shape)
        owners[Writer("before-first-apply", "Update", writer.api_version)] = _Owned(everything, now)
    fields = frozenset(path for path in fieldsets.of(config, shape) - _NOBODYS if mine(path))
    before = owners.get(writer, _Owned(frozenset(), now))
    merged = _merge(live, config, shape)
    remaining = fields.union(*(owned.fields for other, owned in owners.items() if other != writer))
    merged = _without(merged, shape, _abandoned(before.fields, remaining), ())
    changed, removed = _difference(live, merged, shape)
    _settle(owners, writer, changed, force=force)
    owners = {other: owned._replace(fields=owned.fields - removed) for other, owned in owners.items()}
    owners[writer] = _Owned(fields, before.time if before.fields == fields and not changed | removed else now)
    metadata = {**(merged.get("metadata") or {}), _MANAGED: _write(owners)}
    return {**merged, "metadata": metadata}


def _difference(old: Json, new: Json, shape: Shape) -> tuple[frozenset[Path], frozenset[Path]]:
    found = fieldsets.compare(_bare(old), _bare(new), shape)
    return found.changed - _NOBODYS, found.removed - _NOBODYS


def _bare(value: Json) -> Json:
    """The object without managedFields."""
    metadata = dict(value.get("metadata") or {})
    metadata.pop(_MANAGED, None)
    return {**value, "metadata": metadata}


def _settle(owners: Owners, writer: Writer, changed: frozenset[Path], *, force: bool) -> None:
    """Removes the changed fields from their other owners; raises a conflict without `force`."""
    taken = {other: owned.fields & changed for other, owned in owners.items() if other != writer}
    conflicts = {other: fields for other, fields in taken.items() if fields}
    if conflicts and not force:
        raise _conflict(conflicts)
    for other, fields in conflicts.items():
        owners[other] = owners[other]._replace(fields=owners[other].fields - fields)


def _conflict(conflicts: dict[Writer, frozenset[Path]]) -> Refused:
    causes, texts = [], []
    for other in sorted(conflicts, key=lambda w: w.order):
        paths = [fieldsets.dotted(path) for path in sorted(conflicts[other])]
        part = f' with subresource "{other.subresource}"' if other.subresource else ""
        version = f" using {other.api_version}" if other.operation == "Update" else ""
        owner = f'"{other.manager}"{part}{version}'
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
            for path in paths
        ]
        if len(causes) == len(paths) == 1 == len(conflicts):
            texts.append(f"conflict with {owner}: {paths[0]}")
        else:
            texts.append(f"conflicts with {owner}:\n" + "\n".join(f"- {path}" for path in paths))
    count = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    return Refused("Conflict", f"Apply failed with {count}: " + "\n".join(texts), details={"causes": causes})


def _merge(live: Any, config: Any, shape: Shape) -> Any:
    if not (fieldsets.merges(live, shape) and fieldsets.merges(config, shape) and type(live) is type(config)):
        return config
    if isinstance(config, dict):
        merged = dict(live)
        for name, child in config.items():
            merged[name] = _merge(merged.get(name), child, shape.child(name))
        return merged
    items = {fieldsets.identity(item, shape): item for item in live}
    for item in config:
        step = fieldsets.identity(item, shape)
        items[step] = _merge(items.get(step), item, shape.items)
    return list(items.values())


def _abandoned(before: frozenset[Path], remaining: frozenset[Path]) -> frozenset[Path]:
    """Fields that only this manager owned and no longer applies, unless a manager owns a field below them."""
    held = {path[:n] for path in remaining for n in range(1, len(path) + 1)}
    return frozenset(path for path in before if path not in held)


def _without(value: Any, shape: Shape, removed: frozenset[Path], path: Path) -> Any:
    """The value without those fields, and without fields that become empty."""
    if not any(other[: len(path)] == path for other in removed) or not fieldsets.merges(value, shape):
        return value
    if isinstance(value, dict):
        remaining = {}
        for name, child in value.items():
            at = (*path, f"f:{name}")
            if at not in removed:
                left = _without(child, shape.child(name), removed, at)
                if left or left == child:
                    remaining[name] = left
        return remaining
    items = [(item, (*path, fieldsets.identity(item, shape))) for item in value]
    return [_without(item, shape.items, removed, at) for item, at in items if at not in removed]


def _read(entries: Any) -> Owners:
    owners: Owners = {}
    for entry in entries or ():
        writer = Writer(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        fields = fieldsets.from_fields(entry.get("fieldsV1"))
        known = owners.get(writer)
        owners[writer] = _Owned(fields | known.fields if known else fields, entry.get("time", ""))
    return owners


def _write(owners: Owners) -> list[Json]:
    entries = []
    for writer, owned in sorted(
        owners.items(), key=lambda pair: (pair[0].operation, pair[1].time, pair[0].order)
    ):
        if not owned.fields:
            continue
        entry = {"manager": writer.manager, "operation": writer.operation, "apiVersion": writer.api_version}
        if owned.time:
            entry["time"] = owned.time
        entries.append(
            {**entry, "fieldsType": "FieldsV1", "fieldsV1": fieldsets.to_fields(owned.fields)}
            | ({"subresource": writer.subresource} if writer.subresource else {})
        )
    return entries
