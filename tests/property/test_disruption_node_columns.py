"""Columns of nodes that are updated after random changes equal columns that are computed from all nodes."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from disruption_builders import MEDIUM, NOW_S, SMALL, disruption_input, load, managed_node
from holdfast.core.disruption.node_columns import NodeColumns
from holdfast.core.disruption.targets import unsettled
from holdfast.model import resources
from holdfast.model.snapshot import NodeView, Snapshot
from planner_builders import pool, shape

NODES = ("n1", "n2", "n3", "n4", "n5")
POOLS = (pool("default", consolidate_after_s=60), pool("never", consolidate_after_s=None))
RESOURCES = (resources.CPU, resources.MEMORY, "example.com/none")


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    one = managed_node(
        name,
        draw(st.sampled_from((SMALL, MEDIUM))),
        load(f"pod-{name}", shape(draw(st.sampled_from((100, 500))))),
        slot=draw(st.sampled_from((None, "cr-1"))),
        zone=draw(st.sampled_from(("z1", "z2"))),
        initialized=draw(st.booleans()),
        deleting=draw(st.booleans()),
        last_pod_event_s=draw(st.sampled_from((None, 0, NOW_S - 60, NOW_S - 59))),
    )
    return replace(one, node_pool=draw(st.sampled_from(("default", "never", "unknown", None))))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[NodeView, ...]]:
    """The nodes of successive passes. Some nodes stay the same objects; others change, are deleted or new."""
    found: list[tuple[NodeView, ...]] = []
    there: dict[str, NodeView] = {}
    for _ in range(draw(st.integers(1, 4))):
        for name in draw(st.sets(st.sampled_from(NODES))):
            if draw(st.booleans()):
                there[name] = draw(nodes(name))
            else:
                there.pop(name, None)
        found.append(tuple(draw(st.permutations(list(there.values())))))
    return found


@settings(max_examples=150)
@given(histories(), st.sets(st.sampled_from(RESOURCES)))
def test_updated_columns_equal_columns_of_all_nodes(
    history: Sequence[tuple[NodeView, ...]], requested: set[str]
) -> None:
    updated: NodeColumns | None = None
    for there in history:
        updated = NodeColumns(there, updated)
        for resource in requested:  # a column that one pass read is part of the next
            updated.free(resource)
    assert updated is not None
    scratch = NodeColumns(history[-1])
    assert content(updated) == content(scratch)


@settings(max_examples=60)
@given(histories())
def test_unsettled_nodes_are_those_of_the_snapshot(history: Sequence[tuple[NodeView, ...]]) -> None:
    empty = disruption_input(pools=POOLS).snapshot
    updated = None
    for there in history:
        updated = NodeColumns(there, updated)
        snapshot = Snapshot(NOW_S, empty.cloud_labels, node_pools=POOLS, nodes=there)
        mask = updated.unsettled(POOLS, NOW_S).tolist()
        assert {node.name for node, is_fresh in zip(updated.nodes, mask, strict=True) if is_fresh} == (
            unsettled(snapshot)
        )


def test_columns_forget_the_kinds_of_deleted_nodes() -> None:
    columns = None
    for n in range(300):
        columns = NodeColumns([managed_node("n1", labels={"deploy": str(n)})], columns)
        assert len(columns.samples) < 100
        assert len(columns.kinds) == len(columns.samples)


def content(columns: NodeColumns) -> list[object]:
    """What the columns say about each node. The numbers of kinds may differ, their samples may not."""
    samples = [columns.samples[kind] for kind in columns.kind.tolist()]
    return [
        [node.name for node in columns.nodes],
        columns.rows,
        columns.initialized.tolist(),
        columns.deleting.tolist(),
        columns.reserved.tolist(),
        [(one.taints, [label for label in one.labels if "hostname" not in label[0]]) for one in samples],
        [columns.free(resource).tolist() for resource in RESOURCES],
        [columns.size(resource).tolist() for resource in RESOURCES],
        columns.unsettled(POOLS, NOW_S).tolist(),
    ]
