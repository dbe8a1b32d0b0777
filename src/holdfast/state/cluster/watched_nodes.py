"""The nodes of a running cluster as values, updated as objects change.

Called by `cluster_state`. The cost of a snapshot depends on what changed, not on the size of the cluster. So a node is
converted again only when its Node, NodeClaim, CSINode, pods, DisruptionCommand, nomination or instance type changed.
`nodes.pairs` does the same for all objects at once.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.api.nodeclaim import NodeClaim, NodeClassReference
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.storage import CSINode
from holdfast.model.offerings import InstanceType
from holdfast.model.snapshot import CloudLabels, NodeView
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.cluster.views import Views
from holdfast.state.cluster.watched_gang_launches import WatchedGangLaunches
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.conversion import claims, disruption_commands, nodepools, nodes
from holdfast.state.conversion.nodes import Limits, NodeAndClaim
from holdfast.state.conversion.snapshot import Nodes

_CONVERTED_AT_ONCE: Final = 100  # in about 5 ms
_DISRUPTED: Final = "disrupted"
_NAME: Final = operator.attrgetter("name")

Types = tuple[InstanceType, ...]


class WatchedNodes:
    def __init__(
        self,
        caches: Caches,
        pods: WatchedPods,
        nominations: Nominations,
        gang_launches: WatchedGangLaunches,
        *,
        clock: Clock,
        labels: CloudLabels,
        is_ours: Callable[[NodeClassReference], bool],
    ) -> None:
        self._nodes, self._claims, self._csi_nodes = caches.of(Node), caches.of(NodeClaim), caches.of(CSINode)
        self._pods = pods
        self._all_pods = caches.of(Pod)
        self._nominations = nominations
        self._gang_launches = gang_launches
        self._clock = clock
        self._labels = labels
        self._is_ours = is_ours
        self._nodes_by_provider_id = self._nodes.index(indexes.by_provider_id)
        self._claims_by_provider_id = self._claims.index(indexes.by_provider_id)
        self._claims_by_node = self._claims.index(indexes.by_node_name)
        self._disrupted = self._claims.index(_is_disrupted)
        self._limits: Mapping[str, Limits] = {}  # by instance type
        self._types: Mapping[str, Types] = {}  # by name of class
        self._offerings: claims.Offerings = {}
        self._deleting: frozenset[str] = frozenset()
        self._ending: frozenset[str] = frozenset()  # NodeClaims of gang launches
        self._nominated: frozenset[str] = frozenset()
        self._full: frozenset[str] = frozenset()
        self._views: Views[NodeView] = Views()
        self._lone: Views[NodeView] = Views()  # of NodeClaims without a Node, by name of the NodeClaim
        self._pairs: dict[str, NodeAndClaim] = {}  # of `_views` and of `_lone`, by the same names
        self._lone_pairs: dict[str, NodeAndClaim] = {}
        self._all_pairs: Mapping[str, NodeAndClaim] | None = None  # None: a pair changed
        self._changed = dict.fromkeys(node.metadata.name for node in self._nodes)
        self._changed_claims = dict.fromkeys(claim.metadata.name for claim in self._claims)
        self._used = nodepools.Used()
        self._all = Nodes()
        self._sources = (self._views.all(), self._lone.all())
        self._nodes.subscribe(self._on_node)
        self._csi_nodes.subscribe(self._on_node)
        self._claims.subscribe(self._on_claim)
        pods.subscribe(self._on_pod)

    def use(self, types: Mapping[str, Types]) -> None:
        """Sets the instance types, by name of node class."""
        if types.keys() == self._types.keys() and all(types[name] is self._types[name] for name in types):
            return
        limits = nodes.stated_limits(types.values())
        if limits != self._limits:
            self._changed |= dict.fromkeys(self._views.names())
        self._changed_claims |= dict.fromkeys(self._lone.names())
        self._types, self._limits, self._offerings = types, limits, {}

    async def see_changed(self) -> None:
        """Converts changed nodes in batches, so that the event loop is not blocked."""
        self._mark()
        for _ in range(0, len(self._changed) + len(self._changed_claims), _CONVERTED_AT_ONCE):
            self._see_some()
            await self._clock.sleep(0)

    def all(self) -> Nodes:
        """The nodes now. The same object is returned until something changes."""
        self._mark()
        while self._changed or self._changed_claims:
            self._see_some()
        self._offerings = {}  # their claims may be launched or deleted before the next snapshot
        views, lone = self._views.all(), self._lone.all()
        if views is not self._sources[0] or lone is not self._sources[1]:
            there = tuple(sorted((*views, *lone), key=_NAME)) if lone else views
            self._all, self._sources = Nodes(there, self._used.by_pool()), (views, lone)
        return self._all

    def pairs(self) -> Mapping[str, NodeAndClaim]:
        """The objects of the nodes of the last `all`, by name, without nodes that are not launched. The same mapping is
        returned until one changes."""
        if self._all_pairs is None:
            self._all_pairs = {**self._pairs, **self._lone_pairs}
        return self._all_pairs

    # --- What changed ---------------------------------------------------------------------------------

    def _on_node(self, before: Node | CSINode | None, after: Node | CSINode | None) -> None:
        for obj in (before, after):
            if obj is not None:
                self._changed[obj.metadata.name] = None

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        for claim in (before, after):
            if claim is not None:
                self._changed_claims[claim.metadata.name] = None
                self._changed |= dict.fromkeys(self._may_be(claim))

    def _on_pod(self, node: str) -> None:
        self._changed[node] = None

    def _mark(self) -> None:
        """Adds nodes to `_changed` whose DisruptionCommand, nomination or unreadable pods appeared or disappeared, and
        those that must end with their gang."""
        deleting = disruption_commands.nodes_to_delete(
            self._disrupted.get(_DISRUPTED), lambda name: self._claims.get(("", name)) is not None
        )
        nominated = self._nominations.targets()
        full = frozenset(pod.node_name for pod in self._all_pods.unreadable.values() if pod.node_name)
        for name in sorted((deleting ^ self._deleting) | (nominated ^ self._nominated) | (full ^ self._full)):
            self._changed[name] = self._changed_claims[name] = None
        self._deleting, self._nominated, self._full = deleting, nominated, full
        ending = self._gang_launches.ending()
        for name in sorted(ending ^ self._ending):
            claim = self._claims.get(("", name))
            self._changed_claims[name] = None
            self._changed |= dict.fromkeys(self._may_be(claim) if claim is not None else ())
        self._ending = ending

    # --- Conversion -----------------------------------------------------------------------------------

    def _see_some(self) -> None:
        """Nodes first: `_alone` needs them to find out whether a NodeClaim has a Node."""
        for _ in range(_CONVERTED_AT_ONCE):
            if self._changed:
                self._see_node(_pop_first(self._changed))
            elif self._changed_claims:
                self._see_claim(_pop_first(self._changed_claims))

    def _see_node(self, name: str) -> None:
        node, before = self._nodes.get(("", name)), self._views.get(name)
        self._pairs.pop(name, None)
        self._all_pairs = None
        after = self._view_of(node) if node is not None and nodes.is_known(node) else None
        self._put(self._views, name, after)
        had, has = before and before.claim, after and after.claim
        if had != has:
            self._changed_claims |= dict.fromkeys(claim for claim in (had, has) if claim)

    def _view_of(self, node: Node) -> NodeView | None:
        claim = self._claim_of(node)
        return None if claim is None and nodes.waits_for_claim(node) else self._view(node, claim)

    def _see_claim(self, name: str) -> None:
        claim = self._claims.get(("", name))
        ours = claim is not None and self._is_ours(claim.spec.node_class_ref)
        self._lone_pairs.pop(name, None)
        self._all_pairs = None
        self._put(self._lone, name, self._alone(claim) if claim is not None and ours else None)

    def _put(self, views: Views[NodeView], name: str, after: NodeView | None) -> None:
        self._used.change(views.get(name), after)
        views.put(name, after)

    def _claim_of(self, node: Node) -> NodeClaim | None:
        def ours(found: Iterable[NodeClaim]) -> list[NodeClaim]:
            return [claim for claim in found if self._is_ours(claim.spec.node_class_ref)]

        same_provider_id = self._claims_by_provider_id.get(node.spec.provider_id)
        names_node = self._claims_by_node.get(node.metadata.name)
        return nodes.claim_of_node(ours(same_provider_id), ours(names_node))

    def _may_be(self, claim: NodeClaim) -> list[str]:
        """Names of nodes that may belong to the claim."""
        found = self._nodes_by_provider_id.get(claim.status.provider_id or "")
        return [*indexes.by_node_name(claim), *(node.metadata.name for node in found)]

    def _alone(self, claim: NodeClaim) -> NodeView | None:
        """The view of a NodeClaim without a Node, launched or not. None: it has a Node, or is deleting without one."""
        if not claim.status.provider_id:
            if claim.metadata.deletion_timestamp is not None or claim.metadata.name in self._ending:
                return None
            types = self._types.get(claim.spec.node_class_ref.name, ())
            return claims.in_flight_node(claim, types, self._labels, self._offerings)
        found = map(self._views.get, self._may_be(claim))
        has_node = any(view is not None and view.claim == claim.metadata.name for view in found)
        return None if has_node else self._view(None, claim)

    def _view(self, node: Node | None, claim: NodeClaim | None) -> NodeView:
        pair = NodeAndClaim(node, claim)
        name = pair.name
        (self._lone_pairs if node is None else self._pairs)[name] = pair
        return nodes.view(
            pair,
            self._pods.on_node(name) if node is not None else (),
            to_delete=name in self._deleting or (claim is not None and claim.metadata.name in self._ending),
            nominated=name in self._nominated,
            full=name in self._full,
            volume_limits=nodes.volume_limits(
                self._csi_nodes.get(("", name)), self._limits.get(pair.instance_type, ())
            ),
        )


def _pop_first(changed: dict[str, None]) -> str:
    first = next(iter(changed))
    del changed[first]
    return first


def _is_disrupted(claim: NodeClaim) -> tuple[str, ...]:
    return (_DISRUPTED,) if disruption_commands.is_annotated(claim) else ()
