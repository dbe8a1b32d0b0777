"""Candidates and node counts that are updated after random changes equal those that are computed from all nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from disruption_builders import MEDIUM, NOW_S, SMALL, catalog, disruption_input, load, managed_node
from holdfast.core.disruption import budgets
from holdfast.core.disruption.candidates import Candidate, CandidateCache, CandidateSet
from holdfast.core.disruption.inputs import DisruptionInput, NodeFacts, PoolRules
from holdfast.model.snapshot import NodeView
from planner_builders import pool, shape

NAMES = ("n1", "n2", "n3", "n4")
POOLS = (pool("default", catalog()), pool("other", catalog(), consolidate_after_s=None))
SOME_POOLS = (POOLS, POOLS[:1], (pool("default", catalog()[:1]), POOLS[1]))
SHAPES = (shape(100, app="a"), shape(500, app="a"))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    one = managed_node(
        name,
        draw(st.sampled_from((SMALL, MEDIUM))),
        load(f"pod-{name}", draw(st.sampled_from(SHAPES)), draw(st.integers(0, 2))),
        slot=draw(st.sampled_from((None, "cr-1"))),
        initialized=draw(st.booleans()),
        deleting=draw(st.booleans()),
        last_pod_event_s=draw(st.sampled_from((None, NOW_S - 60))),
    )
    return replace(one, node_pool=draw(st.sampled_from(("default", "other", "unknown", None))))


facts = st.builds(
    NodeFacts,
    ready=st.booleans(),
    rebooting=st.booleans(),
    ending=st.booleans(),
    queued=st.booleans(),
    initialized_s=st.sampled_from((None, NOW_S - 60)),
)


@st.composite
def histories(draw: st.DrawFn) -> list[DisruptionInput]:
    """The inputs of successive passes. Some values stay the same objects; others change, are removed or new."""
    there: dict[str, NodeView] = {}
    known: Mapping[str, NodeFacts] = {}
    found = []
    for _ in range(draw(st.integers(1, 5))):
        for name in draw(st.sets(st.sampled_from(NAMES))):
            if draw(st.booleans()):
                there[name] = draw(nodes(name))
            else:
                there.pop(name, None)
        if draw(st.booleans()):
            known = {**known, **draw(st.dictionaries(st.sampled_from(NAMES), facts))}
            known = {name: one for name, one in known.items() if draw(st.booleans())}
        one = disruption_input(*there.values(), pools=draw(st.sampled_from(SOME_POOLS)))
        rules = {name: PoolRules() for name in draw(st.sets(st.sampled_from(("default", "other", "third"))))}
        found.append(replace(one, facts=known, pools=rules))
    return found


@settings(max_examples=200)
@given(histories())
def test_updated_candidates_equal_candidates_of_all_nodes(history: Sequence[DisruptionInput]) -> None:
    cache = CandidateCache()
    for cluster in history:
        updated, scratch = CandidateSet(cluster, cache), CandidateSet(cluster)
        assert list(map(content, sorted_values(updated.candidates))) == list(
            map(content, sorted_values(scratch.candidates))
        )
        assert updated.refused == scratch.refused
        assert updated.counts == scratch.counts == budgets.counts(cluster)


def sorted_values(found: Mapping[str, Candidate]) -> list[Candidate]:
    return [found[name] for name in sorted(found)]


def content(one: Candidate) -> dict[str, Any]:
    """The candidate without the numbers that only candidates of one cache share."""
    return {name: getattr(one, name) for name in one.__slots__ if name != "alike"}
