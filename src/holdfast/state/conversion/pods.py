"""Pods as decisions see them, converted fast: one look-up for a pod of a shape that was seen before.

Called whenever a snapshot is taken and by `holdfast plan`. The rules: equal shapes are one object, so that a
planner may group by identity; what is remembered is bounded and belongs to the converter, never to the
module; a pod whose meaning depends on its context is read again when the context changes.
"""

from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api.pods import Pod
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reasons import Reason
from holdfast.model.resources import Resources
from holdfast.state.conversion import pod_shapes, pod_states, times
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import Converted, PodContext

REMEMBERED_MAX: Final = 131_072
Amounts = tuple[tuple[str, int], ...]


class PodConverter:
    """From wire pods to views. Keep one: what it has seen makes the next snapshot cheap."""

    def __init__(
        self, rules: LabelRules, context: PodContext | None = None, *, remembered_max: int = REMEMBERED_MAX
    ) -> None:
        self._rules = rules
        self._context = context or PodContext()
        self._remembered_max = remembered_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._known: dict[bytes, Converted] = {}
        self._prototypes: dict[bytes, PodShape] = {}  # by all but size
        self._siblings: dict[bytes, PodShape] = {}  # by all but labels and size
        self._sizes: dict[bytes, Resources] = {}
        self._dependent: list[bytes] = []  # keys of the pods that mean something else in another context
        # Every shape, by the identity of the first one with the same terms and by its size: comparing all terms of each
        # new size would take half of the time.
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

    def view(self, pod: Pod, *, now_s: int, uid: str = "") -> tuple[PodView, tuple[Reason, ...]]:
        """The pod, and why it is rejected if it is not running yet. `uid` stands in for the pod's own."""
        converted = self.convert(pod)
        return view(pod, converted.shape, now_s=now_s, uid=uid), converted.problems

    def convert(self, pod: Pod) -> Converted:
        parts = _parts(pod)
        if self._context.spreads.constraints and not pod.spec.topology_spread_constraints:
            # Whom a default is about depends on what made the pod.
            parts = (*parts, pod.metadata.owner_references)
        try:
            key = self._encode(parts)
        except OverflowError:  # a number beyond 64 bits, which only a file can hold: not cached
            return pod_shapes.convert(pod, self._context, self._rules)
        return self._known.get(key) or self._convert_and_cache(key, parts, pod)

    def _convert_and_cache(self, key: bytes, parts: tuple[Any, ...], pod: Pod) -> Converted:
        if len(self._known) >= self._remembered_max:
            # Pods come in runs of one shape: to start anew costs one conversion a shape, and no bookkeeping.
            self._clear()
        converted = self._known[key] = self._fresh(parts, pod)
        if not converted.self_contained:
            self._dependent.append(key)
        return converted

    def _fresh(self, parts: tuple[Any, ...], pod: Pod) -> Converted:
        """Pods often differ in size alone: the rest is read once."""
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
        """Pods often differ in labels by an ordinal: the rest is read once, unless labels decide about it."""
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
        """None: it cannot be read, which is reported with the other problems of the pod."""
        key = self._encode(parts[1])
        found = self._sizes.get(key)
        if found is None:
            try:
                found = self._sizes[key] = pod_shapes.requests(pod)
            except errors.InvalidInput:
                return None
        return found

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


def view(pod: Pod, shape: PodShape, *, now_s: int, uid: str = "") -> PodView:
    """The pod, whose shape that is."""
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
    )


def _parts(pod: Pod) -> tuple[Any, ...]:
    """All that `pod_shapes` reads and no more: labels, what its size follows from, and everything else.

    Volumes that are no claims have a random name in every pod, and the pod's own name matters only where a claim is
    named after it.
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
            spec.tolerations,
            spec.topology_spread_constraints,
            claims,
            spec.resource_claims,
            spec.host_network,
            [container.ports for container in (*spec.containers, *spec.init_containers) if container.ports],
        ),
    )
