"""Reads the studies of `holdfast simulate` from files: one for each variant and seed."""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api.documents import Document
from holdfast.api.findings import Finding
from holdfast.api.meta import Object
from holdfast.api.scenario import Catalog, Settings
from holdfast.api.simulation import Simulation
from holdfast.api.world import World
from holdfast.cli import manifests, study_snapshots
from holdfast.cli.manifests import Loaded, Located, Raw
from holdfast.cli.study_snapshots import Start
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.scenarios import scenario
from holdfast.sim import world_reading
from holdfast.simulate import recordings, study, variants
from holdfast.simulate.recordings import Recording
from holdfast.simulate.study import Study

BASE: Final = "base"
BEGINS: Final = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday; used if the World sets no start
_ONCE: Final[tuple[type[Object], ...]] = (World, Simulation, Catalog)
_IN_FILES_ONLY: Final = {(kind.api_version, kind.kind) for kind in _ONCE}


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    path: str  # of its file; empty: it changes nothing


class Mistakes(Exception):
    """The files have mistakes; the arguments are `Located` findings."""


def read(paths: Sequence[str], given: Sequence[Variant], seeds: Sequence[int], duration: str) -> list[Study]:
    """The studies, those of one variant together. `duration` and `seeds` override the Simulation's. Raises Mistakes."""
    files = _raw(paths)
    digest = ""
    found: list[Study] = []
    for variant in (Variant(BASE, ""), *given):
        base = _study(_changed(files, _raw([variant.path])) if variant.path else files, duration)
        digest = digest or _digest(files, base.study.recordings)
        changes = variants.lines(_values(files), list(base.documents)) if variant.path else ()
        named = dataclasses.replace(
            base.study,
            input=digest,
            variant=variant.name,
            changes=changes,
            study_variants=(BASE, *(one.name for one in given)),
            study_seeds=tuple(seeds),
        )
        found += [dataclasses.replace(named, seed=seed) for seed in seeds or (named.seed,)]
    return found


def _raw(paths: Sequence[str]) -> tuple[Raw, ...]:
    found, findings = manifests.read_raw(paths)
    if findings:
        raise Mistakes(*findings)
    return found


def _values(files: Sequence[Raw]) -> list[dict[str, Any]]:
    return [raw.document.value for raw in files]


def _digest(files: Sequence[Raw], found: Sequence[Recording]) -> str:
    text = msgspec.json.encode([_values(files), *map(dataclasses.asdict, found)], order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _changed(files: Sequence[Raw], changes: Sequence[Raw]) -> tuple[Raw, ...]:
    """The documents of a variant. A mistake in one is reported at the document that changes it."""
    values = _values(changes)
    for raw, value in zip(changes, values, strict=True):
        if value in variants.missing(_values(files), [value]):
            raise Mistakes(
                raw.located(Finding(("$patch",), "there is nothing of this kind and name to delete"))
            )
    places = {variants.key(raw.document.value): raw for raw in (*files, *changes)}
    found = variants.applied(_values(files), values)
    return tuple(_with_value(places[variants.key(value)], value) for value in found)


def _with_value(raw: Raw, value: study.Json) -> Raw:
    document = raw.document
    return Raw(raw.file, Document(value, document.line, document.text, document.prefix))


@dataclass(frozen=True, slots=True)
class _Base:
    study: Study
    documents: tuple[dict[str, Any], ...]


def _study(files: Sequence[Raw], duration: str) -> _Base:
    world, simulation, catalog = (_only(files, kind) for kind in _ONCE)
    start = _start(files, world, catalog)
    written = simulation.obj if simulation else Simulation()
    assert isinstance(written, Simulation)
    _raise(simulation, study.problems(written.spec, start.objects))
    if duration:
        written = msgspec.structs.replace(
            written, spec=msgspec.structs.replace(written.spec, duration=duration)
        )
    found = _recordings(written, simulation)
    first_s = found[0].begins_s if found else int(BEGINS.timestamp())
    begins_s = world_reading.begin_s(start.world) or first_s
    setup = world_reading.read(start.world, begins_s)
    if isinstance(setup, tuple):
        _raise(world or catalog, iter(setup))
    assert not isinstance(setup, tuple)
    settings = {**_settings(catalog), **_given(written.spec.settings)}
    return _Base(
        Study(
            name=written.metadata.name or "simulation",
            input="",
            seed=written.spec.seed,
            begins_s=begins_s,
            spec=written.spec,
            world=start.world,
            setup=setup,
            timings=dataclasses.replace(world_reading.cluster_timings(start.world), heartbeats=False),
            planning=scenario.overridden(PlanSettings(), settings),
            settings={name: str(value) for name, value in settings.items()},
            objects=start.objects,
            recordings=found,
            notes=start.notes,
        ),
        tuple(_values(files)),
    )


def _start(files: Sequence[Raw], world: Loaded | None, catalog: Loaded | None) -> Start:
    """What the simulation starts with: the World and the objects of the files, or those of a snapshot with them."""
    rest = [raw for raw in files if raw.gvk not in _IN_FILES_ONLY]
    if catalog is not None:
        start = study_snapshots.read(rest, catalog, world)
        if isinstance(start, tuple):
            raise Mistakes(*start)
        return start
    built = world.obj if world else World()
    assert isinstance(built, World)
    return Start(built, tuple(raw.document.value for raw in rest), ())


def _settings(catalog: Loaded | None) -> dict[str, Any]:
    if catalog is None:
        return {}
    assert isinstance(catalog.obj, Catalog)
    return _given(catalog.obj.spec.settings)


def _given(settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(settings).items() if value is not None}


def _recordings(written: Simulation, where: Loaded | None) -> tuple[Recording, ...]:
    """The recordings, from the folder of the file that names them."""
    found: list[Recording] = []
    for number, name in enumerate(written.spec.recordings):
        assert where is not None
        try:
            found.append(recordings.read(Path(where.file).parent / name))
        except errors.InvalidInput as error:
            raise Mistakes(where.located(Finding(("spec", "recordings", number), str(error)))) from error
    return tuple(found)


def _only(files: Sequence[Raw], kind: type[Object]) -> Loaded | None:
    found = [raw for raw in files if raw.gvk == (kind.api_version, kind.kind)]
    if len(found) > 1:
        raise Mistakes(
            found[1].located(Finding(("kind",), f"there is more than one {kind.kind}; remove one"))
        )
    if not found:
        return None
    loaded = manifests.load(found[0], kind)
    if isinstance(loaded, tuple):
        raise Mistakes(*loaded)
    return loaded


def _raise(where: Loaded | None, findings: Iterator[Finding]) -> None:
    found = [
        where.located(finding) if where else Located("", 0, "", "", finding.message) for finding in findings
    ]
    if found:
        raise Mistakes(*found)
