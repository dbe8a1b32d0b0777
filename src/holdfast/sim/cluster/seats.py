"""Where pods are, as the scheduler counts it: a seat for each node, with what is taken on it.

Callers: `scheduler` and its filters and scores. A pod is counted where it was last bound, from the moment of the
binding: the watch reports it only later, and two pods must not get the same capacity.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.runtime.cache import Caches
from holdfast.sim.cluster import amounts, kinds, pods
from holdfast.sim.cluster.amounts import Amounts
from holdfast.sim.cluster.kinds import Json, Node, Pod

Port = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Guest:
    """A pod on a node, with what it takes."""

    pod: Pod
    requests: Amounts
    ports: tuple[Port, ...]

    @property
    def owner(self) -> str:
        owner = kinds.controller_of(self.pod)
        return owner.uid if owner is not None else ""

    @property
    def is_averse(self) -> bool:
        return "podAntiAffinity" in (self.pod.spec.get("affinity") or {})


@dataclass(slots=True)
class Seat:
    guests: dict[str, Guest] = field(default_factory=dict)  # by uid
    averse: dict[str, Guest] = field(default_factory=dict)  # those of them that keep others away
    owners: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    ports: Counter[Port] = field(default_factory=Counter)

    def add(self, guest: Guest) -> None:
        self.guests[guest.pod.metadata.uid] = guest
        if guest.is_averse:
            self.averse[guest.pod.metadata.uid] = guest
        self.owners[guest.owner] += 1
        self.used.update(guest.requests)
        self.ports.update(guest.ports)

    def remove(self, uid: str) -> None:
        guest = self.guests.pop(uid)
        self.averse.pop(uid, None)
        self.owners[guest.owner] -= 1
        self.used.subtract(guest.requests)
        self.ports.subtract(guest.ports)


@dataclass(frozen=True, slots=True)
class Place:
    """A node and its seat, at one moment."""

    node: Node
    seat: Seat
    allocatable: Amounts

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def guests(self) -> Iterable[Pod]:
        return (guest.pod for guest in self.seat.guests.values())


class Seats:
    def __init__(self, caches: Caches) -> None:
        self._nodes = caches.of(Node)
        self._seats: dict[str, Seat] = {}
        self._where: dict[str, str] = {}  # uid of a pod -> its node
        self._sizes: dict[str, tuple[str, Amounts]] = {}  # node -> its version then, and what it had
        caches.of(Pod).subscribe(self._changed)

    def places(self) -> list[Place]:
        """Every node, by name: the order must not depend on how they came."""
        nodes = sorted(self._nodes, key=lambda node: node.metadata.name)
        return [Place(node, self._seat(node.metadata.name), self._size(node)) for node in nodes]

    def put(self, pod: Pod, node: str) -> None:
        self.take(pod)
        self._where[pod.metadata.uid] = node
        self._seat(node).add(Guest(pod, with_one_pod(pod.spec), tuple(pods.host_ports(pod.spec))))

    def take(self, pod: Pod) -> None:
        node = self._where.pop(pod.metadata.uid, None)
        if node is not None:
            self._seat(node).remove(pod.metadata.uid)

    def _seat(self, node: str) -> Seat:
        return self._seats.setdefault(node, Seat())

    def _size(self, node: Node) -> Amounts:
        version, size = self._sizes.get(node.metadata.name, ("", {}))
        if version != node.metadata.resource_version:
            size = amounts.of(node.status.get("allocatable"))
            self._sizes[node.metadata.name] = (node.metadata.resource_version, size)
        return size

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or before.metadata.uid != after.metadata.uid):
            self.take(before)
        if after is None:
            return
        if pods.ended(after):
            self.take(after)
        elif pods.node_of(after):
            self.put(after, pods.node_of(after))


def with_one_pod(spec: Json) -> dict[str, int]:
    """What it takes of a node, itself included."""
    return {**pods.requests(spec), "pods": 1000}
