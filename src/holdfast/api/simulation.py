"""holdfast.dev/v1alpha1 Simulation: how long a simulation lasts, and what its workloads do meanwhile.

`holdfast simulate` reads it from the same files as the World and the manifests. It is never an object of a cluster. The
schema of the format is generated from these types.
"""

from typing import Annotated, ClassVar, Final

import msgspec

from holdfast.api import patterns
from holdfast.api.meta import Object, Wire
from holdfast.api.scenario import COUNT_MAX, Settings
from holdfast.api.schema import about

PERCENT_MAX: Final = 1000
OBJECT_NAME: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
TIME_OF_DAY: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

Name = Annotated[
    str,
    about(
        "Its name, or its namespace and name with a slash; without a namespace: default.", pattern=OBJECT_NAME
    ),
]


def _duration(what: str) -> msgspec.Meta:
    return about(what, pattern=patterns.DURATION)


def _percent(what: str) -> msgspec.Meta:
    return about(what, minimum=0, maximum=PERCENT_MAX)


class ReplicasAt(Wire, frozen=True, kw_only=True):
    at: Annotated[str, about("The time of day in UTC, such as '09:00', in quotes.", pattern=TIME_OF_DAY)]
    replicas: Annotated[int, about("How many replicas it has then.", minimum=0, maximum=COUNT_MAX)]


class DailyReplicas(Wire, frozen=True, kw_only=True):
    """A Deployment that follows a curve through the day, in straight lines between the points."""

    deployment: Name
    points: Annotated[tuple[ReplicasAt, ...], about("The curve, repeated every day.", min_items=1)]
    every: Annotated[str, _duration("How often it is scaled.")] = "5m"
    weekend_percent: Annotated[int, _percent("The share of the curve on Saturdays and Sundays.")] = 100
    noise_percent: Annotated[int, _percent("How far it is from the curve at most, at random.")] = 0


class JobRuns(Wire, frozen=True, kw_only=True):
    """When a Job of the files runs. Each run is a Job of its own, with the same template."""

    job: Name
    at: Annotated[
        tuple[Annotated[str, _duration("Time after the start.")], ...],
        about("When it runs, after the start."),
    ] = ()
    every: Annotated[str | None, _duration("How often it runs after the last of these times.")] = None
    per_day: Annotated[
        int, about("How many more runs a day begin at random times.", minimum=0, maximum=COUNT_MAX)
    ] = 0
    runs: Annotated[
        str | None, _duration("How long its pods run; unset: what the annotations of its pods say.")
    ] = None
    runs_percent: Annotated[int, _percent("How much longer or shorter a run is at most, at random.")] = 0


class SavingsPlan(Wire, frozen=True, kw_only=True):
    """A Compute Savings Plan: an amount that is paid each hour, and the discount of what it covers."""

    usd_per_hour: Annotated[str, about("The commitment, in quotes.", pattern=patterns.PRICE)]
    discount_percent: Annotated[int, about("Below the on-demand price.", minimum=1, maximum=99)]


class ReservationPrice(Wire, frozen=True, kw_only=True):
    """What a slot costs that could be reserved, for `--size`."""

    instance_type: Annotated[str, about("The instance type.", min_length=1)]
    usd_per_hour: Annotated[
        str, about("What one slot costs an hour, used or not, in quotes.", pattern=patterns.PRICE)
    ]
    min_duration: Annotated[str, _duration("The shortest time for which it can be reserved.")] = "1h"


class SimulationSpec(Wire, frozen=True, kw_only=True):
    duration: Annotated[str, _duration("How long the simulated time is.")] = "24h"
    seed: Annotated[int, about("Everything random follows from it.", minimum=0, maximum=COUNT_MAX)] = 1
    settings: Annotated[Settings, about("Settings of Holdfast, as in a Catalog.")] = Settings()
    replicas: Annotated[tuple[DailyReplicas, ...], about("Deployments that scale by the time of day.")] = ()
    jobs: Annotated[
        tuple[JobRuns, ...], about("When Jobs run; one that is not listed runs once, at the start.")
    ] = ()
    recordings: Annotated[
        tuple[str, ...],
        about("Files of `holdfast record`, relative to this file; their pods come and go again."),
    ] = ()
    savings_plan: Annotated[SavingsPlan | None, about("A discount for on-demand instances.")] = None
    reservation_prices: Annotated[tuple[ReservationPrice, ...], about("Prices of slots for `--size`.")] = ()


class Simulation(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "holdfast.dev/v1alpha1"
    kind: ClassVar[str] = "Simulation"
    plural: ClassVar[str] = "simulations"
    namespaced: ClassVar[bool] = False

    spec: Annotated[SimulationSpec, about("How long it lasts, and what happens.")] = SimulationSpec()
