"""Reads the scenario for `holdfast plan` from files, or returns all mistakes with file, line, object and field."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.scenario import Catalog
from holdfast.cli import aws, manifests
from holdfast.cli.manifests import Loaded, Located, Manifests
from holdfast.scenarios import scenario
from holdfast.scenarios.checks import Wrong
from holdfast.scenarios.scenario import Scenario
from holdfast.state.conversion import times


@dataclass(frozen=True, slots=True)
class Broken:
    """Mistakes in the scenario, in the order of the files."""

    findings: tuple[Located, ...]


def read(
    paths: Sequence[str],
    *,
    now_s: int | None,
    clock: Callable[[], float],
    flags: Mapping[str, Any],
    ignore_unknown_kinds: bool = False,
) -> Scenario | Broken:
    """The scenario under the paths, at `now_s`, else at the Catalog's time, else now."""
    loaded = manifests.read(paths, ignore_unknown_kinds=ignore_unknown_kinds)
    return _built(loaded, paths, now_s=now_s, clock=clock, flags=flags)


def of_documents(documents: Iterable[dict[str, Any]]) -> Scenario | Broken:
    """The scenario of plain documents, at the Catalog's time."""
    # One List is read as JSON; several documents would be read as YAML, which takes ten times as long.
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    return _built(manifests.parse("documents", text), ["documents"], now_s=None, clock=lambda: 0.0, flags={})


def _built(
    loaded: Manifests,
    paths: Sequence[str],
    *,
    now_s: int | None,
    clock: Callable[[], float],
    flags: Mapping[str, Any],
) -> Scenario | Broken:
    if loaded.findings:
        return _broken(loaded.findings)
    objects = [item.obj for item in loaded.objects]
    catalog = scenario.find_catalog(objects)
    if not isinstance(catalog, Catalog):
        return _broken(_located(catalog, loaded.objects, paths))
    if now_s is None:
        now_s = int(clock()) if catalog.spec.now is None else times.epoch_s(catalog.spec.now)
    how = scenario.settings(catalog.spec.settings, flags)
    regions = aws.regions() if catalog.spec.region is not None else {}
    built = scenario.build(objects, catalog, now_s=now_s, how=how, terms=aws.TERMS, regions=regions)
    return built if isinstance(built, Scenario) else _broken(_located(built, loaded.objects, paths))


def _located(wrong: Iterable[Wrong], objects: Iterable[Loaded], paths: Sequence[str]) -> list[Located]:
    sources = {id(item.obj): item for item in objects}
    return [
        Located(", ".join(paths), 1, "", "", one.finding.message)
        if one.obj is None
        else sources[id(one.obj)].located(one.finding)
        for one in wrong
    ]


def _broken(findings: Iterable[Located]) -> Broken:
    return Broken(tuple(sorted(findings, key=lambda f: (f.file, f.line, f.path))))
