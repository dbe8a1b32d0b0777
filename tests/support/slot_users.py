"""Which NodeClaims could use a slot of a reservation, from the objects of the API server and the data of EC2.

Used by `unused_slots`. It shares no code with the controllers. In doubt a NodeClaim cannot use the slot: a rule that
reports something else than a defect is of no use.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.sim.api.storage.store import Store
from holdfast.sim.cluster import amounts
from holdfast.sim.cluster import pods as pod_words
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation
from holdfast.sim.ec2.region_state import RegionState

CLAIMS: Final = "karpenter.sh/nodeclaims"
POOLS: Final = "karpenter.sh/nodepools"
CLASSES: Final = "karpenter.k8s.aws/ec2nodeclasses"
POD_GROUPS: Final = "scheduling.k8s.io/podgroups"
BUDGETS: Final = "policy/poddisruptionbudgets"
POOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
DRAINS_S: Final = 40 * 60  # before its end a capacity block is drained
ALLOCATABLE: Final = {"cpu": 0.9, "memory": 0.6}  # at least this part of an instance is for pods
_PODS_MAX: Final = 20  # every instance type of the tests runs more
_RESERVED: Final = "reserved"
_RESERVATION_LABELS: Final = "karpenter.k8s.aws/capacity-reservation"

Json = dict[str, Any]


class SlotUsers:
    def __init__(self, store: Store, region: RegionState) -> None:
        self._store = store
        self._region = region

    def may_launch(self, claim: Json, reservation: Reservation) -> bool:
        """Whether the NodePool and the EC2NodeClass of a NodeClaim allow a node in the reservation."""
        pool, node_class = self._pool(claim), self._object(CLASSES, claim["spec"]["nodeClassRef"]["name"])
        if pool is None or node_class is None:
            return False
        wanted = (
            (CAPACITY_TYPE, _RESERVED),
            (INSTANCE_TYPE, reservation.instance_type),
            (ZONE, self._zone(reservation)),
        )
        terms = node_class["spec"].get("capacityReservationSelectorTerms") or ()
        requirements = pool["spec"]["template"]["spec"].get("requirements") or ()
        return any(term.get("id") == reservation.id for term in terms) and all(
            _allows(requirements, key, value) for key, value in wanted
        )

    def fits_planned(self, claim: Json, reservation: Reservation) -> bool:
        """Whether the pods that a NodeClaim was created for fit: by the resources that it requests, and by its zones."""
        requests = amounts.of((claim["spec"].get("resources") or {}).get("requests"))
        in_zone = _allows(claim["spec"].get("requirements") or (), ZONE, self._zone(reservation))
        return in_zone and self._has_capacity(reservation, requests)

    def fits(self, pods: Iterable[Pod], reservation: Reservation, zone_id: str) -> bool:
        """Whether the pods of a node in a zone fit on a node in the reservation."""
        pods = tuple(pods)
        total = amounts.total((*(pod_words.requests(pod.spec) for pod in pods), {"pods": 1000 * len(pods)}))
        has_volumes = any(any(pod_words.claim_names(pod)) for pod in pods)
        return (
            self._has_capacity(reservation, total)
            and all(
                _allows_node(pod, {CAPACITY_TYPE: _RESERVED, ZONE: self._zone(reservation)}) for pod in pods
            )
            and (reservation.zone_id == zone_id or not has_volumes)
        )

    def is_large_enough(self, pod: Pod, reservation: Reservation) -> bool:
        """Whether a node in the reservation has enough capacity for a pod."""
        return self._has_capacity(reservation, pod_words.requests(pod.spec))

    def within_limit(self, claim: Json, reservation: Reservation, replaced: Instance | None) -> bool:
        """Whether the limits of the NodePool allow one more node in the reservation, without the replaced instance."""
        pool = self._pool(claim)
        limits = amounts.of(((pool or {}).get("spec") or {}).get("limits"))
        if set(limits) - {"cpu"}:
            return False
        others = [
            self._vcpus(one["metadata"]["labels"].get(INSTANCE_TYPE, ""))
            for one in self.objects(CLAIMS)
            if one["metadata"]["labels"].get(POOL) == claim["metadata"]["labels"].get(POOL)
        ]
        used = sum(others) - (self._vcpus(replaced.instance_type) if replaced is not None else 0)
        needed = used + self._vcpus(reservation.instance_type)
        return "cpu" not in limits or 1000 * needed <= limits["cpu"]

    def may_consolidate(self, claim: Json, pods: Sequence[Pod]) -> bool:
        """Whether the NodePool allows that consolidation replaces the node, and the PodDisruptionBudgets the evictions."""
        disruption = ((self._pool(claim) or {}).get("spec") or {}).get("disruption") or {}
        budgets = disruption.get("budgets") or ({"nodes": "10%"},)
        blocked = [
            (one["spec"].get("selector") or {}).get("matchLabels") or {}
            for one in self.objects(BUDGETS)
            if not (one.get("status") or {}).get("disruptionsAllowed")
        ]
        return (
            disruption.get("consolidationPolicy", "WhenEmptyOrUnderutilized") == "WhenEmptyOrUnderutilized"
            and disruption.get("consolidateAfter") != "Never"
            and not any(str(budget["nodes"]) in ("0", "0%") for budget in budgets)
            and not any(labels.items() <= pod.metadata.labels.items() for pod in pods for labels in blocked)
            and not any(map(self._lacks_members, pods))
        )

    def _lacks_members(self, pod: Pod) -> bool:
        """Whether the PodGroup of a pod has too few pods: kube-scheduler would not bind the pod again."""
        name = (pod.spec.get("schedulingGroup") or {}).get("podGroupName")
        if not name:
            return False
        namespace = pod.metadata.namespace
        group = self._store.get(POD_GROUPS, (namespace, name))
        members = [
            one
            for one in self.objects("/pods")
            if one["metadata"]["namespace"] == namespace
            and (one["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
        ]
        return group is None or len(members) < group.value()["spec"]["schedulingPolicy"]["gang"]["minCount"]

    def objects(self, bucket: str) -> Iterator[Json]:
        return (stored.value() for stored in self._store.bucket(bucket).sorted())

    def _pool(self, claim: Json) -> Json | None:
        return self._object(POOLS, claim["metadata"]["labels"].get(POOL, ""))

    def _object(self, bucket: str, name: str) -> Json | None:
        stored = self._store.get(bucket, ("", name))
        return stored.value() if stored is not None else None

    def _zone(self, reservation: Reservation) -> str:
        return self._region.account(reservation.owner).zone_name(reservation.zone_id)

    def _vcpus(self, instance_type: str) -> int:
        found = self._region.types.get(instance_type)
        return found.vcpus if found is not None else 0

    def _has_capacity(self, reservation: Reservation, requests: dict[str, int]) -> bool:
        info = self._region.types[reservation.instance_type]
        capacity = {
            "cpu": 1000 * info.vcpus,
            "memory": 1000 * info.memory_mib * 2**20,
            "pods": 1000 * _PODS_MAX,
        }
        return all(
            name in capacity and amount <= ALLOCATABLE.get(name, 1) * capacity[name]
            for name, amount in requests.items()
        )


def is_open(reservation: Reservation, now_s: int) -> bool:
    """Whether instances may be launched into a reservation if it has free slots."""
    drains = reservation.kind == CAPACITY_BLOCK and now_s >= reservation.end_s - DRAINS_S
    shrinks = reservation.target >= 0
    return reservation.active and not drains and not shrinks


def accepts_reserved(pod: Pod) -> bool:
    """Whether a pod can run on a reserved node, in any zone."""
    return _allows_node(pod, {CAPACITY_TYPE: _RESERVED})


def _allows_node(pod: Pod, labels: dict[str, str]) -> bool:
    """Whether the node selector of a pod allows the labels; node affinity is not evaluated, so it allows nothing."""
    selector = pod.spec.get("nodeSelector") or {}
    return (
        all(selector.get(key, value) == value for key, value in labels.items())
        and not any(key.startswith(_RESERVATION_LABELS) for key in selector)
        and "nodeAffinity" not in (pod.spec.get("affinity") or {})
    )


def _allows(requirements: Iterable[Json], key: str, value: str) -> bool:
    for one in requirements:
        if one["key"] == key:
            values = one.get("values") or ()
            match one["operator"]:
                case "In" if value not in values:
                    return False
                case "NotIn" if value in values:
                    return False
                case "In" | "NotIn" | "Exists":
                    continue
                case _:
                    return False
    return True
