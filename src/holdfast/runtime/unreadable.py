"""Objects that cannot be decoded: reports them, and checks which nodes and instances they may belong to.

An unreadable object may have any content, so it prevents every deletion that a readable one could prevent, and nothing
else.
"""

import functools
from typing import Any, Final

import structlog

from holdfast.api.answers import Unreadable
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.ports import Recorder
from holdfast.runtime.cache import Cache, Caches

GAUGE: Final = "holdfast_unreadable_objects"
EVENT: Final = "Unreadable"


def report(caches: Caches, recorder: Recorder) -> None:
    """Logs each unreadable version of an object, emits an event on it and sets the metric."""
    for cache in caches:
        cache.subscribe_unreadable(functools.partial(_changed, cache, recorder))


def pods_on(pods: Cache[Pod], node: str) -> int:
    """How many unreadable pods may be bound to the node."""
    return sum(pod.node_name in (node, None) for pod in pods.unreadable.values())


def may_be_node_of(nodes: Cache[Node], provider_id: str) -> bool:
    """Whether an unreadable Node may be the one of the instance."""
    return any(node.provider_id in (provider_id, None) for node in nodes.unreadable.values())


def _changed(cache: Cache[Any], recorder: Recorder, obj: Unreadable | None) -> None:
    recorder.gauge(GAUGE, {"resource": cache.kind.plural}, len(cache.unreadable))
    if obj is None:
        return
    meta = obj.metadata
    structlog.get_logger().error(
        "failed to decode object",
        kind=obj.kind,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        error=obj.problem,
    )
    if meta.name:
        message = f"Failed to decode {obj.kind}, using its last readable version: {obj.problem}"
        recorder.event(obj, EVENT, message, warning=True)
