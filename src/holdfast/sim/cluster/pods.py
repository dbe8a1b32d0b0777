"""Functions over pods that several programs of the cluster use."""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.sim.cluster import amounts
from holdfast.sim.cluster.kinds import Json, Pod

ENDED: Final = ("Succeeded", "Failed")
READY: Final = "Ready"


def ended(pod: Pod) -> bool:
    return pod.status.get("phase") in ENDED


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def active(pod: Pod) -> bool:
    """Whether the pod counts for its owner: it has not ended and is not terminating."""
    return not ended(pod) and not is_terminating(pod)


def node_of(pod: Pod) -> str:
    return str(pod.spec.get("nodeName") or "")


def ready(pod: Pod) -> bool:
    return condition(pod.status, READY).get("status") == "True"


def condition(status: Json, kind: str) -> Json:
    """A condition of a status; empty if it has none of that type."""
    for one in status.get("conditions") or ():  # a loop is faster than a generator
        if one["type"] == kind:
            found: Json = one
            return found
    return {}


def with_conditions(status: Json, now: str, *changed: Json) -> list[Json]:
    """The conditions of a status after a change; lastTransitionTime changes only with the status of a condition."""
    conditions: dict[str, Json] = {c["type"]: c for c in status.get("conditions") or ()}
    for new in changed:
        old = conditions.get(new["type"], {})
        since = old["lastTransitionTime"] if old.get("status") == new["status"] else now
        conditions[new["type"]] = {**new, "lastTransitionTime": since}
    return list(conditions.values())


def requests(spec: Json) -> dict[str, int]:
    """The resources that the pod needs on a node. Init containers run one after the other; restartable ones keep
    running."""
    running = amounts.total(_requests(container) for container in spec.get("containers") or ())
    staying: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            staying = amounts.total((staying, own))
            most = amounts.larger(most, staying)
        else:
            most = amounts.larger(most, amounts.total((staying, own)))
    whole = amounts.larger(amounts.total((running, staying)), most)
    given = (spec.get("resources") or {}).get("requests")
    if given:  # pod-level requests replace the sum of the containers
        whole |= amounts.of(given)
    return amounts.total((whole, amounts.of(spec.get("overhead"))))


def host_ports(spec: Json) -> Iterator[tuple[str, str, int]]:
    """Address, protocol and number of each host port."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port["containerPort"] if spec.get("hostNetwork") else 0)
            if number:
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", number  # noqa: S104


def claim_names(pod: Pod) -> Iterator[str]:
    """The names of its PersistentVolumeClaims, with those of ephemeral volumes."""
    for volume in pod.spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod.metadata.name}-{volume['name']}"


def _requests(container: dict[str, Any]) -> dict[str, int]:
    return amounts.of((container.get("resources") or {}).get("requests"))
