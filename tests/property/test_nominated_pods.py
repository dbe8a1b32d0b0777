"""Nominated pods on the nodes of successive snapshots are where they are without the snapshots before."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.snapshot import NodeView
from holdfast.state.cluster.nominated_pods import NominatedPods
from holdfast.state.cluster.nominations import Nominations
from manual_ports import ManualClock
from planner_builders import node, pods, request, shape

NODES = ("a", "b", "c", "d")
TARGETS = (*NODES, "claim-a", "claim-b")
WAITING = pods(6, shape(), "web")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[NodeView, ...]]:
    """The nodes of successive snapshots. Some nodes stay the same objects; others change, are deleted or new. Two nodes
    may have the same NodeClaim."""
    found: list[tuple[NodeView, ...]] = []
    there: dict[str, NodeView] = {}
    for _ in range(draw(st.integers(1, 6))):
        for name in draw(st.sets(st.sampled_from(NODES))):
            if draw(st.integers(0, 3)):
                one = node(name, initialized=draw(st.booleans()), deleting=draw(st.booleans()))
                running = (WAITING[NODES.index(name)],) if draw(st.booleans()) else ()
                claim = draw(st.sampled_from((None, name, "claim-a", "claim-b")))
                there[name] = replace(one, claim=claim, pods=running)
            else:
                there.pop(name, None)
        found.append(tuple(there[name] for name in sorted(there)))
    return found


@settings(max_examples=150, deadline=None)
@given(histories(), st.lists(st.sampled_from(TARGETS), min_size=len(WAITING), max_size=len(WAITING)))
def test_nominated_pods_do_not_depend_on_the_snapshots_before(
    history: Sequence[tuple[NodeView, ...]], targets: Sequence[str]
) -> None:
    clock = ManualClock()
    lasting = Nominations(clock)
    kept = NominatedPods(lasting, clock=clock)
    for nodes in history:
        fresh = Nominations(clock)
        for nominations in (lasting, fresh):
            for uid in list(dict(nominations)):
                nominations.remove(uid)
            for pod, target in zip(WAITING, targets, strict=True):
                nominations.nominate([pod.uid], target, ready=False)
        snapshot = request([], WAITING, nodes=nodes).snapshot
        found = kept.applied(snapshot)
        assert found == NominatedPods(fresh, clock=clock).applied(snapshot)
        assert list(lasting) == list(fresh)
        for one, before in zip(found.nodes, nodes, strict=True):
            assert one is before or one.nominated
