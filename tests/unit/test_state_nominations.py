"""Nominations of pods to nodes and NodeClaims, and how long they last."""

import pytest

from holdfast.state.cluster.nominations import NODES_MAX, WINDOW_S, Nominations
from manual_ports import ManualClock


def nominated_nodes(nominations: Nominations, *pods: str, coming: dict[str, bool]) -> list[str | None]:
    nominations.keep(pods, coming.get)
    return [nominations.target_of(pod) for pod in pods]


@pytest.mark.fact("ST-12", "S-103")
def test_a_nomination_to_an_existing_node_ends_after_the_window() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    nominations.nominate(["a"], "node", ready=True)
    assert nominations.targets() == {"node"}
    clock.advance(WINDOW_S - 1)
    assert nominated_nodes(nominations, "a", coming={"node": False}) == ["node"]
    clock.advance(1)
    assert nominated_nodes(nominations, "a", coming={"node": False}) == [None]
    assert nominations.targets() == frozenset()


def test_a_nomination_to_a_claim_ends_one_window_after_its_node_is_ready() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    nominations.nominate(["a"], "claim", ready=False)
    clock.advance(600)
    assert nominated_nodes(nominations, "a", coming={"claim": True}) == ["claim"]
    assert nominated_nodes(nominations, "a", coming={"claim": False}) == ["claim"]
    clock.advance(WINDOW_S)
    assert nominated_nodes(nominations, "a", coming={"claim": False}) == [None]


@pytest.mark.parametrize("ready", [True, False])
def test_the_window_of_a_pod_starts_when_all_nodes_of_its_gang_are_ready(*, ready: bool) -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    nominations.nominate(["a"], "node", ready=ready)
    for _ in range(5):
        clock.advance(WINDOW_S)
        nominations.keep(["a"], {"node": False}.get, {"a"})
        assert nominations.target_of("a") == "node"
    assert nominated_nodes(nominations, "a", coming={"node": False}) == ["node"]
    clock.advance(WINDOW_S)
    assert nominated_nodes(nominations, "a", coming={"node": False}) == [None]


def test_a_nomination_to_a_deleted_claim_ends() -> None:
    nominations = Nominations(ManualClock())
    nominations.nominate(["a", "b"], "claim", ready=False)
    assert sorted(nominations.pods_of("claim")) == ["a", "b"]
    assert nominated_nodes(nominations, "a", coming={}) == [None]
    assert len(nominations) == 0


def test_the_nomination_of_a_bound_pod_ends() -> None:
    nominations = Nominations(ManualClock())
    nominations.nominate(["a", "b"], "claim", ready=False)
    nominations.keep(["b"], lambda _: True)
    assert nominations.pods_of("claim") == ["b"]


def launch_without_binding(nominations: Nominations, clock: ManualClock, pod: str) -> None:
    nominations.nominate([pod], "claim", ready=False)
    nominations.keep([pod], {"claim": False}.get)  # the node is ready, so the window for binding starts
    clock.advance(WINDOW_S)
    nominations.keep([pod], {"claim": False}.get)


def test_the_delay_of_a_pod_grows_with_each_launched_node_that_it_is_not_bound_to() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    for _ in range(NODES_MAX - 1):
        launch_without_binding(nominations, clock, "a")
    assert not nominations.delayed()
    for delay_s in (60, 120, 240):
        launch_without_binding(nominations, clock, "a")
        clock.advance(delay_s - 1)
        assert nominations.delayed() == {"a"}
        clock.advance(1)
        assert not nominations.delayed()
    for _ in range(20):
        launch_without_binding(nominations, clock, "a")
    clock.advance(3600)
    assert not nominations.delayed()


def test_the_delay_of_a_bound_or_deleted_pod_ends() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    for _ in range(NODES_MAX):
        launch_without_binding(nominations, clock, "a")
    nominations.keep([], lambda _: None)
    assert not nominations.delayed()
    assert nominations.unbound("a") == 0


def test_an_existing_node_does_not_count_for_the_delay_of_a_pod() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    for _ in range(NODES_MAX):
        nominations.nominate(["a"], "node", ready=True)
        clock.advance(WINDOW_S)
        nominations.keep(["a"], {"node": False}.get)
    assert not nominations.delayed()


def test_a_claim_is_void_once_none_of_its_pods_needs_it() -> None:
    nominations = Nominations(ManualClock())
    nominations.nominate(["a", "b"], "claim", ready=False, written=True)
    nominations.keep(["b"], {"claim": True}.get)
    assert not nominations.is_void("claim")
    nominations.keep([], {"claim": True}.get)
    assert nominations.is_void("claim")
    nominations.nominate(["c"], "claim", ready=False)
    assert not nominations.is_void("claim")


def test_a_replacement_claim_is_never_void() -> None:
    nominations = Nominations(ManualClock())
    nominations.nominate(["a"], "replacement", ready=False)
    nominations.keep([], {"replacement": True}.get)
    assert not nominations.is_void("replacement")


def test_a_claim_that_is_not_in_the_cache_yet_is_not_void() -> None:
    nominations = Nominations(ManualClock())
    nominations.nominate(["a"], "claim", ready=False, written=True)
    nominations.keep(["a"], lambda _: None)
    assert not nominations.is_void("claim")
