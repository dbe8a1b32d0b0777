"""Hostile values in every kind of object that Holdfast reads; `make fuzz-hostile` runs more simulations."""

import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

import hostile
import hostile_environment
from holdfast import errors
from holdfast.api import kinds
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from holdfast.cloud.aws.catalog import labels, node_shape
from holdfast.cloud.aws.nodeclass import class_checks, class_hash
from holdfast.controllers import drain
from holdfast.controllers.claim_draft import Draft
from holdfast.core.disruption import budgets as disruption_budgets
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.scenarios import workloads
from holdfast.state.conversion import (
    budgets,
    claims,
    daemonsets,
    default_spreads,
    disruption_commands,
    disruption_input,
    nodepools,
    nodes,
    pod_shapes,
    volumes,
)
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.nodes import NodeAndClaim
from holdfast.state.conversion.pod_shapes import PodContext
from holdfast.state.conversion.pods import PodConverter
from objects import NOW_S

PER_KIND = 300
SIMULATIONS = 4
RULES = LabelRules(labels.WELL_KNOWN_LABELS)


def test_objects_that_use_capacity_convert_with_any_hostile_value() -> None:
    for obj in read_objects():
        for convert in ALWAYS.get(type(obj), ()):
            convert(obj)


def test_hostile_objects_are_refused_with_a_reason() -> None:
    refused = [
        _is_refused(convert, obj) for obj in read_objects() for convert in OR_REFUSED.get(type(obj), ())
    ]
    assert sum(refused) > PER_KIND // 2


def test_unreadable_nodepool_has_a_finding() -> None:
    def view(obj: NodePool) -> object:
        return nodepools.view(obj, (), nodepools.NONE_USED)

    refused = [obj for obj in read_objects() if isinstance(obj, NodePool) and _is_refused(view, obj)]
    assert refused
    assert all(list(nodepools.problems(obj, RULES.well_known)) for obj in refused)


def test_unreadable_nodeclass_has_a_problem() -> None:
    refused = [
        obj for obj in read_objects() if isinstance(obj, EC2NodeClass) and _is_refused(node_shape.of, obj)
    ]
    assert refused
    assert all(class_checks.problem(obj) is not None for obj in refused)


@pytest.mark.parametrize("seed", range(1, SIMULATIONS + 1))
def test_hostile_objects_block_neither_healthy_pods_nor_healthy_disruption(seed: int) -> None:
    hostile_environment.run(seed)


# --- Every conversion ---------------------------------------------------------------------------------


def read_objects() -> Iterator[Object]:
    """The objects that decode; the Kubernetes client refuses the others."""
    by_name = {kind.kind: kind for kind in (*kinds.OURS, *kinds.BUILT_IN)}
    for kind in hostile.kinds():
        dice = Random(f"{kind}")
        for number in range(PER_KIND):
            document = hostile.document(kind, f"x-{number}", dice)
            with contextlib.suppress(msgspec.ValidationError):
                yield kinds.from_plain(document, by_name[kind])


def _is_refused(convert: Callable[[Any], object], obj: Object) -> bool:
    try:
        convert(obj)
    except errors.InvalidInput as error:
        return bool(str(error))
    return False


def _bound(pod: Pod) -> None:
    converter = PodConverter(RULES)
    view, _ = converter.view(pod, now_s=NOW_S)
    node = Node(metadata=pod.metadata)
    assert nodes.view(NodeAndClaim(node, None), [view]).free is not None
    drain.drain([pod], now_s=NOW_S, until_s=NOW_S + 60)


def _budgets(pool: NodePool) -> None:
    rules = disruption_input.rules(pool)
    for reason in DisruptionReason:
        limit = disruption_budgets.limit(rules.budgets, reason, 10, NOW_S)
        assert limit is None or limit >= 0


def _claim_alone(claim: NodeClaim) -> None:
    claims.view(claim, labels.CLOUD_LABELS)
    claims.in_flight_node(claim, (), labels.CLOUD_LABELS)
    node_and_claim = NodeAndClaim(None, claim)
    nodes.view(node_and_claim)
    nodes.counts_for(node_and_claim)
    disruption_input.facts(node_and_claim)
    disruption_commands.of(claim)
    draft = Draft(claim, NOW_S)
    draft.age_s("Launched")
    draft.moved()


def _expanded(workload: Any) -> None:
    if workloads.count(workload) <= workloads.PODS_MAX:
        for pod in workloads.expand([workload], ()).pods[:3]:
            PodConverter(RULES).view(pod, now_s=NOW_S)


def _storage(*found: Any) -> None:
    pod = kinds.from_plain(hostile.complete("Pod", "p"), Pod)
    assert isinstance(pod, Pod)
    known = volumes.storage(
        [one for one in found if isinstance(one, PersistentVolumeClaim)],
        [one for one in found if isinstance(one, PersistentVolume)],
        [one for one in found if isinstance(one, StorageClass)],
    )
    pod_shapes.convert(pod, PodContext(storage=known), RULES)


def _node(node: Node) -> None:
    node_and_claim = NodeAndClaim(node, None)
    nodes.view(node_and_claim)
    nodes.counts_for(node_and_claim)
    disruption_input.facts(node_and_claim)


Converters = dict[type[Object], tuple[Callable[[Any], object], ...]]
ALWAYS: Converters = {
    Pod: (_bound,),
    Node: (_node,),
    NodeClaim: (_claim_alone,),
    NodePool: (_budgets, nodepools.template_hash),
    PodDisruptionBudget: (budgets.view,),
    DaemonSet: (lambda one: daemonsets.view(one, None, PodConverter(RULES)),),
    Deployment: (_expanded, lambda one: default_spreads.defaults((), (), [one])),
    ReplicaSet: (_expanded, lambda one: default_spreads.defaults((), (), [one])),
    StatefulSet: (_expanded, lambda one: default_spreads.defaults((), (), [one])),
    Job: (_expanded,),
    PersistentVolume: (_storage,),
    PersistentVolumeClaim: (_storage,),
    StorageClass: (_storage,),
    EC2NodeClass: (class_checks.problem,),
}
OR_REFUSED: Converters = {
    NodePool: (lambda pool: nodepools.view(pool, (), nodepools.NONE_USED),),
    NodeClaim: (claims.requirements_of, claims.check_requests, nodes.claim_taints),
    EC2NodeClass: (node_shape.of, class_hash.of),
}
