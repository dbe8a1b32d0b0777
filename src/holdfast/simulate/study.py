"""What is simulated: the World, the objects of the cluster, and what happens to them over time. Values only.

The command line reads a study from files, `workloads` turns it into an agenda, `run` simulates it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.api.findings import Finding
from holdfast.api.simulation import SimulationSpec
from holdfast.api.world import World
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.sim.cluster.timings import Timings
from holdfast.simulate import schedules
from holdfast.simulate.recordings import Recording

Json = Mapping[str, Any]

DURATION_MAX_S: Final = 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    name: str
    input: str  # a digest of all files
    variant: str = "base"
    changes: tuple[str, ...] = ()  # of the variant, a line each
    seed: int = 1
    study_variants: tuple[str, ...] = ()  # all of them, the base first
    study_seeds: tuple[int, ...] = ()  # all of them, if they are the same for each variant
    begins_s: int
    spec: SimulationSpec
    world: World
    setup: CloudSetup
    timings: Timings
    planning: PlanSettings
    settings: Mapping[str, str] = field(default_factory=dict)  # of Holdfast, that the input sets
    objects: tuple[Json, ...] = ()
    recordings: tuple[Recording, ...] = ()
    notes: tuple[str, ...] = ()  # for the user, about a snapshot

    @property
    def ends_s(self) -> int:
        return self.begins_s + schedules.seconds(self.spec.duration)


def key_of(document: Json) -> tuple[str, str, str]:
    """Kind, namespace and name."""
    meta = document.get("metadata") or {}
    return str(document.get("kind")), str(meta.get("namespace") or "default"), str(meta.get("name"))


def named(kind: str, name: str) -> tuple[str, str, str]:
    """The key of an object that a Simulation names."""
    namespace, _, own = name.rpartition("/")
    return kind, namespace or "default", own


def problems(spec: SimulationSpec, objects: Sequence[Json]) -> Iterator[Finding]:
    """Mistakes that the schema does not know of."""
    duration_s = schedules.seconds(spec.duration)
    if not 0 < duration_s <= DURATION_MAX_S:
        yield Finding(("spec", "duration"), "is not a duration from 1s to 8784h")
    keys = {key_of(one) for one in objects}
    for field_name, kind, names in (
        ("replicas", "Deployment", [(one.deployment, "deployment") for one in spec.replicas]),
        ("jobs", "Job", [(one.job, "job") for one in spec.jobs]),
    ):
        seen = set[tuple[str, str, str]]()
        for number, (name, last) in enumerate(names):
            path = ("spec", field_name, number, last)
            key = named(kind, name)
            if key not in keys:
                yield Finding(path, f"no {kind} {name} is in the files")
            elif key in seen:
                yield Finding(path, f"{name} is there twice")
            seen.add(key)
    for number, one in enumerate(spec.replicas):
        times_of_day = [point.at for point in one.points]
        if len(set(times_of_day)) < len(times_of_day):
            yield Finding(("spec", "replicas", number, "points"), "a time is there twice")
    for number, runs in enumerate(spec.jobs):
        for n, after in enumerate(runs.at):
            if schedules.seconds(after) >= duration_s:
                yield Finding(
                    ("spec", "jobs", number, "at", n), f"is not within the duration {spec.duration}"
                )
