"""Converts pods to values, with a cache by pod spec: a pod equal to an earlier one costs one look-up.

Equal shapes are one object, so that the planner can group pods by identity. The cache is bounded and belongs to the
converter. A cached pod that depends on its context is converted again when the context changes.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api.pods import Pod
from holdfast.model.pods import PodShape, PodView, RunTime
from holdfast.model.reasons import Reason
from holdfast.model.resources import Resources
from holdfast.state.conversion import pod_shapes, pod_states, run_times, times, volumes
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import Converted, PodContext

REMEMBERED_MAX: Final = 131_072
Amounts = tuple[tuple[str, int], ...]


class PodConverter:
    """Converts pods to views. Use one converter for all snapshots: its cache makes the next snapshot cheap."""

    def __init__(
        self, rules: LabelRules, context: PodContext | None = None, *, remembered_max: int = REMEMBERED_MAX
    ) -> None:
        self.run_time_of: Callable[[Pod], RunTime | None] = run_times.run_time
        self._rules = rules
        self._context = context or PodContext()
        self._remembered_max = self._full_at = remembered_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._known: dict[bytes, Converted] = {}
        self._prototypes: dict[bytes, PodShape] = {}  # by all but size
        self._siblings: dict[bytes, PodShape] = {}  # by all but labels and size
        self._sizes: dict[bytes, Resources] = {}
        self._dependent: list[bytes] = []  # keys of `_known` whose result depends on the context
        # Shapes by size and by the identity of the first shape with the same terms. To compare all terms for each new
        # size would take half of the time.
        self._by_terms: dict[PodShape, PodShape] = {}
        self._shapes: dict[tuple[int, Amounts], PodShape] = {}

    def use(self, context: PodContext) -> None:
        """Converts pods in this context from now on."""
        if context == self._context:
            return
        if context.spreads.constraints != self._context.spreads.constraints:
            self._clear()  # even a pod that does not depend on its context may get or lose a constraint
        self._context = context
        for key in self._dependent:
            self._known.pop(key, None)
        self._dependent.clear()

    @property
    def context(self) -> PodContext:
        return self._context

    def view(self, pod: Pod, *, now_s: int, uid: str = "") -> tuple[PodView, tuple[Reason, ...]]:
        """The pod, and why it is rejected if it is pending. `uid` replaces the pod's own uid."""
        converted = self.convert(pod)
        found = view(pod, converted.shape, self.run_time_of(pod), now_s=now_s, uid=uid)
        wrong = run_times.problem(pod)
        return found, converted.problems if wrong is None else (*converted.problems, wrong)

    def convert_virtual(self, pod: Pod) -> Converted:
        """A pod that does not exist yet: the claims of its ephemeral volumes are created with it."""
        storage = volumes.created_with(pod, self._context.storage)
        if storage is self._context.storage:
            return self.convert(pod)
        converted = pod_shapes.convert(pod, replace(self._context, storage=storage), self._rules)
        return converted._replace(shape=self._interned(converted.shape, converted.shape.requests))

    def convert(self, pod: Pod) -> Converted:
        parts = _parts(pod)
        if self._context.spreads.constraints and not pod.spec.topology_spread_constraints:
            # The selector of a default spread constraint depends on the pod's controller.
            parts = (*parts, pod.metadata.owner_references)
        try:
            key = self._encode(parts)
        except OverflowError:  # a number above 64 bits, possible in files only: not cached
            return pod_shapes.convert(pod, self._context, self._rules)
        return self._known.get(key) or self._convert_and_cache(key, parts, pod)

    def _convert_and_cache(self, key: bytes, parts: tuple[Any, ...], pod: Pod) -> Converted:
        if len(self._known) >= self._full_at:
            self._drop_unused()
        converted = self._known[key] = self._fresh(parts, pod)
        if not converted.self_contained:
            self._dependent.append(key)
        return converted

    def _fresh(self, parts: tuple[Any, ...], pod: Pod) -> Converted:
        """Many pods differ only in size: the other fields are converted once."""
        but_size = self._encode((parts[0], *parts[2:]))
        prototype = self._prototypes.get(but_size)
        size = self._size(parts, pod) if prototype is not None else None
        if prototype is not None and size is not None:
            return _plain(self._sized(prototype, size))
        converted = self._relabelled(parts, pod)
        if converted.self_contained and not converted.problems:
            self._prototypes[but_size] = self._by_terms[converted.shape.terms]
        return converted

    def _relabelled(self, parts: tuple[Any, ...], pod: Pod) -> Converted:
        """Many pods differ only in a label with an ordinal: other fields are converted once, unless they need labels."""
        but_labels = self._encode(parts[2:])
        sibling = self._siblings.get(but_labels)
        size = self._size(parts, pod) if sibling is not None else None
        if sibling is not None and size is not None:
            labels = tuple(sorted(pod.metadata.labels.items()))
            return _plain(self._interned(sibling._replace(labels=labels), size))
        converted = pod_shapes.convert(pod, self._context, self._rules)
        if converted.self_contained and not converted.problems and not converted.reads_labels:
            self._siblings[but_labels] = converted.shape
        return converted._replace(shape=self._interned(converted.shape, converted.shape.requests))

    def _interned(self, shape: PodShape, size: Resources) -> PodShape:
        """The one object for a shape of this size."""
        return self._sized(self._by_terms.setdefault(shape.terms, shape), size)

    def _sized(self, first: PodShape, size: Resources) -> PodShape:
        key = id(first), size.amounts
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = first if first.requests == size else first.resized(size)
        return found

    def _size(self, parts: tuple[Any, ...], pod: Pod) -> Resources | None:
        """None: the requests cannot be parsed; `pod_shapes.convert` reports it with the other problems of the pod."""
        key = self._encode(parts[1])
        found = self._sizes.get(key)
        if found is None:
            try:
                found = self._sizes[key] = pod_shapes.requests(pod)
            except errors.InvalidInput:
                return None
        return found

    def _drop_unused(self) -> None:
        """To clear the cache costs one conversion for each shape. An LRU cache would cost time for every pod."""
        self._clear()

    def _keep(self, used: AbstractSet[int], least: int) -> None:
        """Drops all shapes but these, by identity. The next time is when twice as many are cached, or `least`."""
        self._known = {key: one for key, one in self._known.items() if id(one.shape) in used}
        self._shapes = {key: shape for key, shape in self._shapes.items() if id(shape) in used}
        firsts = {first for first, _ in self._shapes}
        self._by_terms = {terms: first for terms, first in self._by_terms.items() if id(first) in firsts}
        self._prototypes = {key: first for key, first in self._prototypes.items() if id(first) in firsts}
        self._siblings.clear()  # nothing tells which are used; each costs one conversion
        self._sizes.clear()
        self._dependent = [key for key in self._dependent if key in self._known]
        if len(self._known) > self._remembered_max // 2:
            self._clear()
        self._full_at = max(least, 2 * len(self._known))

    def _clear(self) -> None:
        for table in (
            self._known,
            self._prototypes,
            self._siblings,
            self._sizes,
            self._by_terms,
            self._shapes,
        ):
            table.clear()
        self._dependent.clear()


def _plain(shape: PodShape) -> Converted:
    """A shape without problems, which depends neither on the context nor on labels."""
    return Converted(shape, (), True, False)


def view(pod: Pod, shape: PodShape, run_time: RunTime | None = None, *, now_s: int, uid: str = "") -> PodView:
    """The view of a pod with this shape."""
    meta, owner_kind = pod.metadata, pod_states.owner(pod)
    return PodView(
        uid or meta.uid or f"{shape.namespace}/{meta.name}",
        meta.name,
        times.epoch_s(meta.creation_timestamp) if meta.creation_timestamp is not None else 0,
        shape,
        pod.spec.node_name or None,
        owner_kind == pod_states.DAEMON_SET,
        pod_states.is_reschedulable(pod, owner_kind),
        pod_states.is_ready(pod),
        bool(meta.annotations) and pod_states.is_not_to_be_disrupted(pod, now_s),
        pod_states.is_terminating(pod),
        owner_kind == pod_states.MIRROR,
        pod.spec.priority or 0,
        pod_states.deletion_cost(pod) if meta.annotations else 0,
        pod_states.maker(pod),
        run_time,
    )


def _parts(pod: Pod) -> tuple[Any, ...]:
    """The fields that `pod_shapes` reads: labels, fields that decide the size, and the other fields.

    Volumes without a claim are left out: their names are random. The pod's name is included only if it has claims,
    since the claim of an ephemeral volume is named after the pod.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    claims = [v for v in spec.volumes if v.persistent_volume_claim or v.ephemeral] if spec.volumes else ()
    return (
        meta.labels,
        (
            spec.containers,
            spec.init_containers,
            spec.resources,
            spec.overhead,
            status.container_statuses,
            status.init_container_statuses,
            bool(status.container_statuses) and pod_shapes.is_resize_infeasible(status),
        ),
        (
            meta.namespace,
            meta.name if claims else None,
            spec.node_selector,
            spec.affinity,
            # The matchFields of a DaemonSet's pod are ignored, those of other pods are not.
            bool(spec.affinity) and pod_states.owner(pod) == pod_states.DAEMON_SET,
            spec.tolerations,
            spec.topology_spread_constraints,
            claims,
            spec.resource_claims,
            spec.host_network,
            [container.ports for container in (*spec.containers, *spec.init_containers) if container.ports],
        ),
    )
