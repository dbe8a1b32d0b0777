"""Which nodes are candidates for disruption, and why the others are not.

As in Karpenter, a candidate is initialized, and not deleting, nominated or annotated with do-not-disrupt; and every pod
on it may be evicted (D-4 to D-6).
"""

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast import names
from holdfast.core.disruption import costs, offers, targets
from holdfast.core.disruption.budgets import NodeCounts, PoolCount
from holdfast.core.disruption.costs import Cost
from holdfast.core.disruption.inputs import DEFAULT_FACTS, DisruptionInput, NodeFacts
from holdfast.core.disruption.node_columns import NodeColumns
from holdfast.core.disruption.offers import Offers
from holdfast.core.scheduling.input import displaced
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.snapshot import BudgetView, NodePoolView, NodeView, Snapshot

_NUMBERS_MIN: Final = 1000
_NUMBERS_EACH: Final = 20  # of each candidate; a new candidate has up to four


class Alike(NamedTuple):
    """Numbers that are equal for candidates of one pass with the same answers."""

    named: int  # they differ only in their names and those of their pods
    labelled: int  # they differ in the labels and namespaces of pods too, where the pods have no constraints on others
    capacity: int  # their pods fit on the same nodes, and the candidates cost the same


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be disrupted, with what follows from the node alone. Some methods also require that `pods_block`
    is None."""

    node: NodeView
    name: str
    facts: NodeFacts
    pool: str
    cost: Cost
    rescheduling: int  # the eviction cost of its pods
    is_empty: bool
    pods_block: (
        Reason | None
    )  # a pod that must not be evicted; a drain with a bound is possible all the same (D-5)
    unpriced: Reason | None  # why consolidation does not know its price
    is_reserved: bool
    quiet_since_s: int  # when a pod was last added or removed
    newest_pod_s: int  # when the newest of the pods that would be evicted was created
    order: tuple[int, int, str]  # sorts by saving per eviction cost, the highest first (D-22)
    alike: Alike

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.label_map

    def is_settled(self, after_s: int | None, now_s: int) -> bool:
        """Whether no pod was added or removed for consolidateAfter: the condition Consolidatable (NC-42)."""
        return after_s is not None and self.node.initialized and now_s >= self.quiet_since_s + after_s


class Budgets:
    """PodDisruptionBudgets by pod. Pods of one shape have the same budgets, so each shape is matched once."""

    def __init__(self, budgets: Iterable[BudgetView]) -> None:
        self._by_namespace: dict[str, list[BudgetView]] = {}
        for one in budgets:
            self._by_namespace.setdefault(one.namespace, []).append(one)
        self._known: dict[int, tuple[PodShape, tuple[BudgetView, ...]]] = {}

    def about(self, pod: PodView) -> tuple[BudgetView, ...]:
        shape = pod.shape
        known = self._known.get(id(shape))
        if known is None:
            labels = dict(shape.labels)
            found = tuple(
                one
                for one in self._by_namespace.get(shape.namespace, ())
                if one.selector is not None and one.selector.matches(labels)
            )
            known = self._known[id(shape)] = shape, found
        return known[1]

    def why_not(self, pod: PodView) -> Reason | None:
        """Why the pod must not be evicted now, or None if it may."""
        about = self.about(pod)
        if not about or not displaced.is_evictable(pod):
            return None
        if len(about) > 1:
            both = " ".join(f"{one.namespace}/{one.name}" for one in about)
            return Reason(
                BlockedCode.BUDGET_OF_PODS,
                f"Eviction does not support multiple PDBs (Pod={pod.full_name}, PodDisruptionBudgets=[{both}])",
                subjects=(pod.full_name,),
            )
        (one,) = about
        if one.disruptions_allowed > 0 or (one.always_allows_unhealthy and not pod.ready):
            return None
        return Reason(
            BlockedCode.BUDGET_OF_PODS,
            f"Pdb prevents pod evictions (PodDisruptionBudget={one.namespace}/{one.name}, Pod={pod.full_name})",
            subjects=(pod.full_name,),
        )


class CandidateCache:
    """The nodes of the last pass: candidates, the reasons of the others, and columns. A node that did not change is the
    same candidate, unless a PodDisruptionBudget or the instance types of its NodePool changed."""

    def __init__(self) -> None:
        self._depends_on: tuple[object, ...] = ()
        self._nodes: dict[str, NodeView] = {}
        self._facts: Mapping[str, NodeFacts] = {}
        self.candidates: dict[str, Candidate] = {}
        self.refused: dict[str, Reason] = {}
        self.counts = NodeCounts()
        self._not_cheaper: dict[str, tuple[Candidate, int, bool, Reason]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._shapes: dict[int, tuple[PodShape, int, int]] = {}
        self._columns: NodeColumns | None = None
        self._offers: tuple[tuple[object, ...], Offers] | None = None
        self.types: dict[str, dict[str, InstanceType]] = {}  # by NodePool and name

    def use(self, budgets: tuple[BudgetView, ...], pools: Mapping[str, NodePoolView]) -> None:
        """Forgets all candidates if they depend on other values than these, or if most of their values are outdated."""
        depends_on = budgets, {name: pool.instance_types for name, pool in pools.items()}
        outdated = len(self._numbers) > _NUMBERS_MIN + _NUMBERS_EACH * len(self._nodes)
        if outdated or depends_on != self._depends_on:
            self._depends_on, self._nodes, self._numbers, self._shapes = depends_on, {}, {}, {}
            self.candidates, self.refused, self.counts, self._not_cheaper = {}, {}, NodeCounts(), {}
            self.types = {name: {t.name: t for t in pool.instance_types} for name, pool in pools.items()}

    def changed(self, nodes: Sequence[NodeView], facts: Mapping[str, NodeFacts]) -> list[NodeView]:
        """The nodes that are not those of the last pass, or have other facts. Forgets nodes that are not there any more."""
        old = self._facts
        known = set(map(id, self._nodes.values()))  # ids are compared without a look at the nodes
        changed = {node.name: node for node in nodes if id(node) not in known}
        if facts is not old:
            names_ = _differing(old, facts)
            there = {node.name: node for node in nodes} if names_ else {}
            changed |= {name: there[name] for name in names_ if name in there}
        for name in [name for name in changed if name in self._nodes]:
            self._forget(name)
        if len(self._nodes) + len(changed) > len(nodes):
            there = {node.name: node for node in nodes}
            for name in [name for name in self._nodes if name not in there]:
                self._forget(name)
        self._facts = facts
        return list(changed.values())

    def put(self, node: NodeView, facts: NodeFacts, answer: "Candidate | Reason") -> None:
        self._nodes[node.name] = node
        self.counts.add(node, facts)
        if isinstance(answer, Candidate):
            self.candidates[node.name] = answer
        else:
            self.refused[node.name] = answer

    def _forget(self, name: str) -> None:
        del self._nodes[name]
        self.counts.remove(name)
        self.candidates.pop(name, None)
        self.refused.pop(name, None)
        self._not_cheaper.pop(name, None)

    def not_cheaper(
        self, one: Candidate, shape: PodShape, compute: Callable[[], Reason], *, starting: bool
    ) -> Reason:
        """Why a node cannot be replaced at a lower price. It names the first pod that fits where `shape` fits, and depends
        on nothing else. Most nodes have the same reason in each pass."""
        number = self._capacity(shape)
        known = self._not_cheaper.get(one.name)
        if known is None or known[0] is not one or known[1:3] != (number, starting):
            known = self._not_cheaper[one.name] = one, number, starting, compute()
        return known[3]

    def offers(self, pools: Mapping[str, NodePoolView]) -> Offers:
        depends_on = tuple((pool.requirements, pool.instance_types) for pool in pools.values())
        if self._offers is None or self._offers[0] != depends_on:
            self._offers = depends_on, offers.of(pools.values())
        return self._offers[1]

    def columns(self, snapshot: Snapshot) -> NodeColumns:
        self._columns = NodeColumns(snapshot.nodes, self._columns)
        return self._columns

    def alike(self, node: NodeView, pool: str, cost: Cost, rescheduling: int) -> Alike:
        """Numbers are compared faster than the labels and shapes of a node."""
        labels = tuple(label for label in node.labels if label[0] != names.HOSTNAME)
        kind = self._number(("kind", labels, node.taints))
        here = pool, cost, rescheduling, kind, node.free, len(node.pods), node.initialized

        def counted(shapes: tuple[tuple[PodShape, int], ...], by: Callable[[PodShape], int]) -> Hashable:
            counts = Counter[int]()
            for shape, count in shapes:
                counts[by(shape)] += count
            return frozenset(counts.items())

        found = node.running_shapes, node.reschedulable_shapes
        return Alike(
            self._number(("named", here, *(counted(one, id) for one in found))),
            self._number(("labelled", here, *(counted(one, self._without_labels) for one in found))),
            self._number(("capacity", cost, kind, node.free, counted(found[1], self._capacity))),
        )

    def _without_labels(self, shape: PodShape) -> int:
        return self._numbers_of(shape)[1]

    def _capacity(self, shape: PodShape) -> int:
        return self._numbers_of(shape)[2]

    def _numbers_of(self, shape: PodShape) -> tuple[PodShape, int, int]:
        known = self._shapes.get(id(shape))
        if known is None:
            constrained = _is_constrained(shape)
            bare = ("shape", id(shape)) if constrained else ("bare", shape._replace(namespace="", labels=()))
            fits = self._number(("fits", targets.capacity_key(shape)))
            known = self._shapes[id(shape)] = shape, self._number(bare), fits
        return known

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


def _differing(old: Mapping[str, NodeFacts], new: Mapping[str, NodeFacts]) -> list[str]:
    """The nodes whose facts are not the same objects."""
    if list(old) == list(new):  # in most passes: no node was added or deleted
        each = zip(new, old.values(), new.values(), strict=True)
        return [name for name, one, other in each if one is not other]
    found = [name for name, one in new.items() if old.get(name, DEFAULT_FACTS) is not one]
    return found + [name for name in old if name not in new]


def _is_constrained(shape: PodShape) -> bool:
    """Whether the pods of a shape have constraints on other pods, or use something that no two pods of a node can."""
    return bool(
        shape.spreads
        or shape.affinity
        or shape.anti_affinity
        or shape.preferred_affinity
        or shape.preferred_anti_affinity
        or shape.host_ports
        or shape.volumes.claims
    )


class CandidateSet:
    """Every node of the input: a candidate, or the reason why it is none."""

    def __init__(self, cluster: DisruptionInput, cache: CandidateCache | None = None) -> None:
        self.cluster = cluster
        self.budgets = Budgets(cluster.snapshot.budgets)
        self.pools: dict[str, NodePoolView] = {pool.name: pool for pool in cluster.snapshot.node_pools}
        self._cache = cache = cache or CandidateCache()
        cache.use(cluster.snapshot.budgets, self.pools)
        for node in cache.changed(cluster.snapshot.nodes, cluster.facts):
            cache.put(node, self.facts(node), self.why_never(node) or self.candidate(node))
        self.candidates: Mapping[str, Candidate] = dict(cache.candidates)
        self.refused: Mapping[str, Reason] = dict(cache.refused)
        self.counts: Mapping[str, PoolCount] = cache.counts.of(cluster.pools)

    @functools.cached_property
    def empty(self) -> list[Candidate]:
        return [one for one in self.candidates.values() if one.is_empty]

    @property
    def offers(self) -> Offers:
        """What consolidation could launch on demand or on spot."""
        return self._cache.offers(self.pools)

    @functools.cached_property
    def columns(self) -> NodeColumns:
        return self._cache.columns(self.cluster.snapshot)

    def not_cheaper(
        self, one: Candidate, shape: PodShape, compute: Callable[[], Reason], *, starting: bool
    ) -> Reason:
        return self._cache.not_cheaper(one, shape, compute, starting=starting)

    @functools.cached_property
    def _reservation_of(self) -> Mapping[str, str]:
        """By provider id, the reservation in which an instance is."""
        instances = self.cluster.snapshot.instances
        return {one.provider_id: one.reservation_id for one in instances if one.reservation_id is not None}

    def is_moved_into_slot(self, one: Candidate) -> bool:
        """Whether the cloud moved the instance of an unreserved node into a reservation that the class of the node selects:
        its labels follow within a minute, and until then its price is not the one that is paid."""
        reservation_id = self._reservation_of.get(one.node.provider_id or "")
        if reservation_id is None or one.is_reserved:
            return False
        type_ = self._cache.types.get(one.pool, {}).get(one.labels.get(names.INSTANCE_TYPE, ""))
        return type_ is not None and any(found.reservation_id == reservation_id for found in type_.offerings)

    def facts(self, node: NodeView) -> NodeFacts:
        return self.cluster.facts.get(node.name, DEFAULT_FACTS)

    def cost(self, node: NodeView) -> Cost:
        types = self._cache.types.get(node.node_pool or "", {})
        return costs.node_cost(node, types, self.cluster.snapshot.cloud_labels)

    def candidate(self, node: NodeView) -> Candidate:
        pool, cost, rescheduling = node.node_pool or "", self.cost(node), costs.rescheduling_cost(node)
        return Candidate(
            node=node,
            name=node.name,
            facts=self.facts(node),
            pool=pool,
            cost=cost,
            rescheduling=rescheduling,
            is_empty=rescheduling <= costs.POD,
            pods_block=next(self._blocked_by(node), None),
            unpriced=self._why_unpriced(node),
            is_reserved=node.label_map.get(names.CAPACITY_TYPE) == names.RESERVED,
            quiet_since_s=quiet_since_s(node, self.facts(node)),
            newest_pod_s=max((pod.created_s for pod in node.pods if pod.reschedulable), default=0),
            order=(*costs.order_key(cost, rescheduling), node.name),
            alike=self._cache.alike(node, pool, cost, rescheduling),
        )

    def _why_unpriced(self, node: NodeView) -> Reason | None:
        type_ = node.label_map.get(names.INSTANCE_TYPE, "")
        if type_ not in self._cache.types.get(node.node_pool or "", {}):
            return Reason(BlockedCode.UNKNOWN_TYPE, f'Instance Type "{type_}" not found')
        for key in (names.CAPACITY_TYPE, names.ZONE):
            if key not in node.label_map:
                return Reason(BlockedCode.NO_LABELS, f'Node does not have label "{key}"', subjects=(key,))
        return None

    def why_never(self, node: NodeView, *, repair: bool = False) -> Reason | None:
        """Why no method may disrupt the node. A repair has fewer conditions (D-4, NC-38a)."""
        facts = self.facts(node)
        if node.node_pool is None or node.claim is None:
            return Reason(BlockedCode.NOT_OURS, "Node has no NodeClaim or no NodePool")
        if facts.queued:
            return Reason(BlockedCode.QUEUED, "Node is a candidate of a command that is being executed")
        if node.deleting:
            return Reason(BlockedCode.DELETING, "Node is deleting or marked for deletion")
        if facts.unreadable:
            return Reason(
                BlockedCode.UNREADABLE,
                "the Node, its NodeClaim or a pod that may run on it cannot be decoded",
            )
        if facts.rebooting:
            return Reason(BlockedCode.REBOOTING, "Node is rebooting")
        if not node.initialized and not (repair and facts.registered):
            return Reason(BlockedCode.UNINITIALIZED, "Node isn't initialized")
        if node.nominated and node.initialized:
            return Reason(BlockedCode.NOMINATED, "Node is nominated for a pending pod")
        if facts.do_not_disrupt and not repair:
            return Reason(
                BlockedCode.DO_NOT_DISRUPT,
                f'Disruption is blocked through the "{names.DO_NOT_DISRUPT}" annotation',
            )
        pool = self.pools.get(node.node_pool)
        if pool is None or not pool.instance_types:
            return Reason(
                BlockedCode.NO_NODE_POOL,
                f'NodePool "{node.node_pool}" does not exist, is not ready or has no instance types',
                subjects=(node.node_pool,),
            )
        return None

    def _blocked_by(self, node: NodeView) -> Iterator[Reason]:
        """Pods that must not be evicted, DaemonSet pods included (D-5)."""
        for pod in node.pods:
            if pod.do_not_disrupt:
                text = f'Pod has "{names.DO_NOT_DISRUPT}" annotation (Pod={pod.full_name})'
                yield Reason(BlockedCode.POD_DO_NOT_DISRUPT, text, subjects=(pod.full_name,))
            why = self.budgets.why_not(pod)
            if why is not None:
                yield why


def quiet_since_s(node: NodeView, facts: NodeFacts) -> int:
    """When a pod was last added or removed: consolidateAfter begins then."""
    return node.last_pod_event_s if node.last_pod_event_s is not None else facts.initialized_s or 0
