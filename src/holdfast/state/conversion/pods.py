"""Pods as decisions see them, converted fast: one look-up for a pod of a shape that was seen before.

Called whenever a snapshot is taken and by `holdfast plan`. The rules: equal shapes are one object, so that a
planner may group by identity; what is remembered is bounded and belongs to the converter, never to the
module; a pod whose meaning depends on its context is read again when the context changes.
"""

from dataclasses import replace
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
        self._siblings: dict[bytes, Converted] = {}  # by all but labels and size
        self._sizes: dict[bytes, Resources] = {}
        self._dependent: list[bytes] = []  # keys of the pods that mean something else in another context
        self._shapes: dict[PodShape, PodShape] = {}

    def use(self, context: PodContext) -> None:
        """Converts pods in this context from now on."""
        if context == self._context:
            return
        if context.spreads.constraints != self._context.spreads.constraints:
            self._forget()  # even a pod that does not depend on its context may get or lose a constraint
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
        except OverflowError:  # a number beyond 64 bits, which only a file can hold: read it, and forget it
            return pod_shapes.convert(pod, self._context, self._rules)
        return self._known.get(key) or self._learn(key, parts, pod)

    def _learn(self, key: bytes, parts: tuple[Any, ...], pod: Pod) -> Converted:
        if len(self._known) >= self._remembered_max:
            # Pods come in runs of one shape: to start anew costs one conversion a shape, and no bookkeeping.
            self._forget()
        fresh = self._sibling(self._encode(parts[1]), self._encode(parts[2:]), pod)
        shape = self._shapes.setdefault(fresh.shape, fresh.shape)
        converted = fresh if shape is fresh.shape else replace(fresh, shape=shape)
        self._known[key] = converted
        if not converted.self_contained:
            self._dependent.append(key)
        return converted

    def _sibling(self, size_key: bytes, key: bytes, pod: Pod) -> Converted:
        """Pods often differ in labels, by an ordinal, or in size alone: the rest is read once."""
        known = self._siblings.get(key)
        if known is not None:
            size = self._sizes.get(size_key)
            if size is None:
                try:
                    size = self._sizes[size_key] = pod_shapes.requests(pod)
                except errors.InvalidInput:  # reported with the other problems of the pod
                    return pod_shapes.convert(pod, self._context, self._rules)
            labels = tuple(sorted(pod.metadata.labels.items()))
            return Converted(replace(known.shape, labels=labels, requests=size), (), True, False)
        fresh = pod_shapes.convert(pod, self._context, self._rules)
        if fresh.self_contained and not fresh.reads_labels and not fresh.problems:
            self._siblings[key] = fresh
            self._sizes[size_key] = fresh.shape.requests
        return fresh

    def _forget(self) -> None:
        self._known.clear()
        self._siblings.clear()
        self._sizes.clear()
        self._dependent.clear()
        self._shapes.clear()


def view(pod: Pod, shape: PodShape, *, now_s: int, uid: str = "") -> PodView:
    """The pod, whose shape that is."""
    meta, made_by = pod.metadata, pod_states.owner(pod)
    return PodView(
        uid or meta.uid or f"{shape.namespace}/{meta.name}",
        meta.name,
        times.epoch_s(meta.creation_timestamp) if meta.creation_timestamp is not None else 0,
        shape,
        pod.spec.node_name or None,
        made_by == pod_states.DAEMON_SET,
        pod_states.is_reschedulable(pod, made_by),
        pod_states.is_ready(pod),
        bool(meta.annotations) and pod_states.is_not_to_be_disrupted(pod, now_s),
        pod_states.is_terminating(pod),
        made_by == pod_states.MIRROR,
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
