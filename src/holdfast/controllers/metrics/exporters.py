"""All metrics that are computed from the caches for a scrape.

Only the leader has them, as in Karpenter: two replicas would count every pod twice in a sum. Each part lets other tasks run
in between, so a scrape does not stop the event loop.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from holdfast.api.meta import Object
from holdfast.controllers.metrics import conditions, costs, nodes, pod_times, pods, reservations
from holdfast.controllers.metrics.conditions import ClassNames
from holdfast.ports import Ports
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state.cluster.cluster_state import ClusterState


class _Exporter(Protocol):
    async def export(self) -> None: ...


def metrics(well_known: Iterable[str], classes: ClassNames) -> tuple[Metric, ...]:
    return (
        *pods.METRICS,
        *pod_times.METRICS,
        *nodes.metrics(well_known),
        *conditions.metrics(classes),
        *reservations.METRICS,
        *costs.METRICS,
    )


class Exporters:
    """`leads`: whether this replica leads. `undecided`: as in PodTimes. `classes`: those of `metrics`."""

    def __init__(  # noqa: PLR0913 - all by keyword, from `app` alone
        self,
        *,
        cluster_state: ClusterState,
        caches: Caches,
        ports: Ports,
        class_kind: type[Object],
        classes: ClassNames,
        leads: Callable[[], bool],
        undecided: Callable[[], Mapping[str, float | None]],
        per_object: bool,
    ) -> None:
        self._leads = leads
        self._recorder = ports.recorder
        self._guard = asyncio.Lock()
        clock, recorder, well_known = ports.clock, ports.recorder, ports.cloud.labels.well_known
        self._gauges = tuple(one.name for one in metrics(well_known, classes) if one.kind == "gauge")
        self._parts: tuple[_Exporter, ...] = (
            pods.PodStates(caches=caches, clock=clock, recorder=recorder, per_object=per_object),
            pod_times.PodTimes(
                caches=caches,
                clock=clock,
                recorder=recorder,
                nominations=cluster_state.nominations,
                leads=leads,
                undecided=undecided,
                per_object=per_object,
            ),
            nodes.NodeSizes(
                caches=caches, clock=clock, recorder=recorder, well_known=well_known, per_object=per_object
            ),
            conditions.Conditions(
                caches=caches,
                class_kind=class_kind,
                classes=classes,
                clock=clock,
                recorder=recorder,
                leads=leads,
                per_object=per_object,
            ),
            reservations.ReservationSlots(
                cluster_state=cluster_state, caches=caches, ports=ports, leads=leads
            ),
            costs.Costs(cluster_state=cluster_state, caches=caches, ports=ports),
        )

    async def export(self) -> None:
        async with self._guard:  # two scrapes at once
            if not self._leads():
                for name in self._gauges:
                    self._recorder.replace(name, {})
                return
            for part in self._parts:
                await part.export()
