"""Caches the documents of instances in responses: an instance that did not change is neither rendered nor filtered again.

Part of `region_state`; `instance_calls` and `status_calls` use it. Entities are frozen, so an instance is unchanged if it is the same
object. The documents are `Unchanging`: a client gets the same object for an instance that did not change.
"""

from collections.abc import Callable, Mapping, Sequence
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


class _Matches:
    """Which instances match some filters, and the last list of them."""

    __slots__ = ("answers", "by_id", "instances")

    def __init__(self) -> None:
        self.by_id: dict[str, tuple[Described, bool]] = {}
        self.instances: Sequence[Instance] | None = None  # those of the last list, before the filters
        self.answers: Sequence[dict[str, Any]] = ()


class Descriptions:
    def __init__(self, instances: Table[Instance]) -> None:
        self._instances = instances
        self._described: dict[str, Described] = {}  # by the id of the instance
        self._matches: dict[bytes, _Matches] = {}  # by filters
        self._batches: dict[tuple[str, ...], tuple[tuple[Unchanging, ...], Unchanging]] = {}  # by their ids

    def matching(
        self,
        instances: Sequence[Instance],
        request: Request,
        describe: Callable[[Instance], Described],
        paths: filters.Paths,
        *,
        tags: str = "Tags",
    ) -> Sequence[dict[str, Any]]:
        """What filters are compared with, of the instances that match every filter of the request. Between two lists
        most often no instance changes; then the answer is that of the list before."""
        known = self._known(request.get("Filters", ()))
        if known.instances != instances:
            matches = filters.matcher(request, paths, tags=tags)
            known.answers = [
                one.filtered
                for one in self._all(instances, describe)
                if self._is_match(one, known.by_id, matches)
            ]
            known.instances = instances
        return known.answers

    def _all(
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

    @staticmethod
    def _is_match(
        one: Described,
        cached: dict[str, tuple[Described, bool]],
        matches: Callable[[Mapping[str, Any]], bool],
    ) -> bool:
        before = cached.get(one.instance.id)
        if before is None or before[0] is not one:
            before = cached[one.instance.id] = one, matches(one.filtered)
        return before[1]

    def _known(self, given: Sequence[Mapping[str, Any]]) -> _Matches:
        """The matches of these filters, and of the last few others."""
        key = msgspec.msgpack.encode(given)
        known = self._matches[key] = self._matches.pop(key) if key in self._matches else _Matches()
        self._bounded(known.by_id)
        if len(self._matches) > _FILTERS_MAX:
            del self._matches[next(iter(self._matches))]
        return known

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
