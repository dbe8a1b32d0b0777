"""Ties the members of a gang that must share a zone, or another node label.

The members get a label of the gang and a required affinity to pods with that label, in snapshots only. So the planner,
and every shortcut of disruption, treats them like pods that users tied to each other in this way.
"""

from dataclasses import replace

from holdfast import names
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodShape, PodTerm, PodView
from holdfast.model.requirement import Expression, Operator
from holdfast.model.selectors import LabelSelector
from holdfast.model.snapshot import NodeView, Snapshot


def tied(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the members of such gangs tied to each other."""
    gangs = {uid: gang for gang in snapshot.gangs if gang.together for uid in gang.bound | gang.unbound}
    if not gangs:
        return snapshot
    shapes: dict[tuple[int, str], PodShape] = {}  # equal shapes of a gang stay one object

    def pod(one: PodView) -> PodView:
        gang = gangs.get(one.uid)
        if gang is None:
            return one
        key = id(one.shape), gang.key
        if key not in shapes:
            shapes[key] = _tied(one.shape, gang)
        return one._replace(shape=shapes[key])

    def node(one: NodeView) -> NodeView:
        if not any(found.uid in gangs for found in one.pods):
            return one
        return replace(one, pods=tuple(map(pod, one.pods)))

    return replace(
        snapshot, pending=tuple(map(pod, snapshot.pending)), nodes=tuple(map(node, snapshot.nodes))
    )


def _tied(shape: PodShape, gang: Gang) -> PodShape:
    assert gang.together is not None
    selector = LabelSelector((Expression(names.GANG, Operator.IN, (gang.key,)),))
    term = PodTerm(gang.together, selector, (shape.namespace,))
    labels = tuple(sorted((*shape.labels, (names.GANG, gang.key))))
    return shape._replace(labels=labels, affinity=(*shape.affinity, term))
