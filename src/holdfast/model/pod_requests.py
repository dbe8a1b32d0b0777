"""The effective requests of a pod, from the requests of its containers.

The sum must be exactly kube-scheduler's: if Holdfast computed less, it would launch nodes to which kube-scheduler never
binds the pod (S-53).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.model import resources
from holdfast.model.resources import NOTHING, Resources

ONE_POD: Final = resources.of({resources.PODS: 1})


@dataclass(frozen=True, slots=True)
class Container:
    """One container's requests. The last two come from its status and differ while a resize is under way."""

    requests: Resources
    sidecar: bool = False  # an init container with restartPolicy Always: it keeps running
    actuated: Resources | None = None  # what the kubelet runs it with; None before it reported
    allocated: Resources = NOTHING  # what the kubelet has granted


def pod_requests(
    containers: Sequence[Container],
    init_containers: Sequence[Container] = (),
    *,
    overhead: Resources = NOTHING,
    pod_level: Resources = NOTHING,
    resize_infeasible: bool = False,
) -> Resources:
    """The effective requests, `pods: 1` included."""
    running = resources.add(*(_effective(c, infeasible=resize_infeasible) for c in containers))
    sidecars, peak = NOTHING, NOTHING
    # In order: an init container runs beside the sidecars that were started before it, not after.
    for container in init_containers:
        if container.sidecar:
            sidecars = resources.add(sidecars, _effective(container, infeasible=resize_infeasible))
            peak = resources.maximum(peak, sidecars)
        else:
            peak = resources.maximum(peak, resources.add(container.requests, sidecars))
    needed = resources.maximum(resources.add(running, sidecars), peak)
    return resources.add(needed.replace(_supported(pod_level)), overhead, ONE_POD)


def _effective(container: Container, *, infeasible: bool) -> Resources:
    """During a resize, the maximum of requested, allocated and actuated; an infeasible request does not count."""
    if container.actuated is None:
        return container.requests
    requested = NOTHING if infeasible else container.requests
    return resources.maximum(requested, container.actuated, container.allocated)


def _supported(pod_level: Resources) -> Resources:
    """Pod-level requests replace the sum of the containers', for the resources Kubernetes allows there."""
    return Resources(
        tuple(
            (name, amount)
            for name, amount in pod_level.amounts
            if name in (resources.CPU, resources.MEMORY) or name.startswith(resources.HUGEPAGES_PREFIX)
        )
    )
