"""Caches the documents of instances in responses: an instance that did not change is neither rendered nor filtered again.

Part of `region_state`; `instance_calls` and `status_calls` use it. Entities are frozen, so an instance is unchanged if it is the same
object. The documents are `Unchanging`: a client gets the same object for an instance that did not change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.sim.aws.codec.shapes import Unchanging
from holdfast.sim.ec2 import filters
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.requests import Request
from holdfast.sim.ec2.table import Table

D = TypeVar("D", bound=dict[Any, Any])

_FILTERS_MAX: Final = 64  # filters whose matches are cached
_SPARE: Final = 50  # so many more entries than instances are cached


class Described:
    """The document of an instance."""

    __slots__ = ("document", "filtered", "instance")

    def __init__(
        self, instance: Instance, document: Unchanging, filtered: dict[str, Any] | None = None
    ) -> None:
        self.instance = instance
        self.document = document
        self.filtered = document if filtered is None else filtered  # what filters are compared with


class Descriptions:
    def __init__(self, instances: Table[Instance]) -> None:
        self._instances = instances
        self._described: dict[str, Described] = {}  # by the id of the instance
        self._matches: dict[bytes, dict[str, tuple[Described, bool]]] = {}  # by filters, then by id
        self._batches: dict[tuple[str, ...], tuple[tuple[Unchanging, ...], Unchanging]] = {}  # by their ids

    def all(
        self, instances: Sequence[Instance], describe: Callable[[Instance], Described]
    ) -> list[Described]:
        known = self._bounded(self._described)
        found = []
        for instance in instances:
            described = known.get(instance.id)
            if described is None or described.instance is not instance:
                described = known[instance.id] = describe(instance)
            found.append(described)
        return found

    def matching(
        self, described: Iterable[Described], request: Request, paths: filters.Paths, *, tags: str = "Tags"
    ) -> list[Described]:
        """Those that match every filter of the request."""
        matches = filters.matcher(request, paths, tags=tags)
        cached = self._cached(request.get("Filters", ()))
        found = []
        for one in described:
            before = cached.get(one.instance.id)
            if before is None or before[0] is not one:
                before = cached[one.instance.id] = one, matches(one.filtered)
            if before[1]:
                found.append(one)
        return found

    def _cached(self, given: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Described, bool]]:
        """The matches of these filters, and of the last few others."""
        key = msgspec.msgpack.encode(given)
        cached = self._matches[key] = self._bounded(self._matches.pop(key, {}))
        if len(self._matches) > _FILTERS_MAX:
            del self._matches[next(iter(self._matches))]
        return cached

    def batches(self, answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Groups the instances of one launch, which EC2 calls a reservation. An item has its document, besides the
        members that filters are compared with."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for answer in answers:
            groups.setdefault(answer["Batch"], []).append(answer)
        self._bounded(self._batches)
        return [self._batch(group) for group in groups.values()]

    def _batch(self, group: list[dict[str, Any]]) -> Unchanging:
        key = tuple([answer["InstanceId"] for answer in group])
        documents = tuple([answer["Document"] for answer in group])
        before = self._batches.get(key)
        if before is not None and all(one is other for one, other in zip(before[0], documents, strict=True)):
            return before[1]
        batch = Unchanging(
            {
                "ReservationId": group[0]["Batch"],
                "OwnerId": group[0]["Owner"],
                "Groups": [],
                "Instances": list(documents),
            }
        )
        self._batches[key] = documents, batch
        return batch

    def _bounded(self, cache: D) -> D:
        """The cache; empty if most of it is of deleted instances."""
        if len(cache) > 2 * len(self._instances) + _SPARE:
            cache.clear()
        return cache
