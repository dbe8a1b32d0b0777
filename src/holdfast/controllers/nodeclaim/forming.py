"""Opens the nodes of a gang when all of them are Ready.

The nodes have the startup taint `holdfast.dev/forming`, so that no pod takes the capacity of a gang that is not complete
yet. It is removed from all when the last is Ready, or after the time that a node has to register: a node that does not
become Ready must not keep the others idle. Once it is removed from one node, it is removed from all.

Other startup taints and missing devices do not keep the taint: the DaemonSet that removes or registers them may not
tolerate it. They keep the node from being initialized.

Until a node is registered, its NodeClaim ends if another one of the gang was deleted. Later only the missing node is
replaced.
"""

from typing import Final

import msgspec
import structlog

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim.gang_launches import CHECK_S, GangLaunches, incomplete
from holdfast.controllers.nodeclaim.subreconciler import Delete
from holdfast.model import wording
from holdfast.ports import Ports
from holdfast.runtime.cache import Index
from holdfast.runtime.results import RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import gang_launches, registrations
from holdfast.state.conversion import nodes as node_states

_TIMEOUT_S: Final = registrations.REGISTRATION_TIMEOUT_S


class Forming:
    def __init__(
        self, *, cluster_state: ClusterState, launching: GangLaunches, nodes: Index[Node], ports: Ports
    ) -> None:
        self._launches = cluster_state.gang_launches
        self._launching = launching
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._recorder = ports.recorder
        self._log = structlog.get_logger().bind(controller="nodeclaim.lifecycle")

    async def run(self, draft: Draft) -> RequeueAfter | Delete | None:
        launch = gang_launches.of(draft.claim)
        claims = self._launches.claims(launch) if launch is not None else []
        if not draft.conditions.holds(claim_conditions.REGISTERED):
            is_left = draft.conditions.holds(claim_conditions.LAUNCHED) and self._launches.must_end(
                draft.claim
            )
            return incomplete(launch, len(claims)) if launch is not None and is_left else None
        node = self._node_of(draft.claim)
        if node is None or not _is_forming(node):
            return None
        left_s = _TIMEOUT_S - draft.age_s(claim_conditions.REGISTERED)
        starting = [one.metadata.name for one in claims if not self._is_ready(one)]
        is_open = draft.conditions.holds(claim_conditions.INITIALIZED) or any(map(self._is_open, claims))
        if starting and not is_open:
            if left_s > 0:
                return RequeueAfter(min(left_s, CHECK_S), "other nodes of its gang are not ready")
            self._report_late(draft, starting)
        taints = [msgspec.to_builtins(one) for one in node.spec.taints if one.key != names.FORMING_TAINT]
        await self._kube.patch(node, {"spec": {"taints": taints}}, only_if_unchanged=True)
        self._log.info("opened node", nodeclaim=draft.name, node=node.metadata.name, without=starting)
        self._launching.wake_others(draft.claim, claims)
        return None

    def _report_late(self, draft: Draft, starting: list[str]) -> None:
        message = (
            f"Pods may use the node although its gang is not complete: {wording.listed(starting)} "
            f"did not become ready within {_TIMEOUT_S} s"
        )
        self._recorder.event(draft.claim, "GangNotReady", message, warning=True)

    def _is_ready(self, claim: NodeClaim) -> bool:
        if conditions.holds(claim.status.conditions, claim_conditions.INITIALIZED):
            return True
        node = self._node_of(claim)
        is_registered = conditions.holds(claim.status.conditions, claim_conditions.REGISTERED)
        return is_registered and node is not None and node_states.is_ready(node)

    def _is_open(self, claim: NodeClaim) -> bool:
        node = self._node_of(claim)
        is_registered = conditions.holds(claim.status.conditions, claim_conditions.REGISTERED)
        return is_registered and node is not None and not _is_forming(node)

    def _node_of(self, claim: NodeClaim) -> Node | None:
        return next(iter(self._nodes.get(claim.status.provider_id or "")), None)


def _is_forming(node: Node) -> bool:
    return any(one.key == names.FORMING_TAINT for one in node.spec.taints)
