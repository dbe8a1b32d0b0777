"""Pods on their way to a node: what is believed, and for how long."""

import pytest

from holdfast.state.cluster.nominations import NODES_MAX, WINDOW_S, Nominations
from manual_ports import ManualClock


def kept(nominations: Nominations, *pods: str, coming: dict[str, bool]) -> list[str | None]:
    nominations.keep(pods, coming.get)
    return [nominations.place_of(pod) for pod in pods]


@pytest.mark.fact("ST-12", "S-103")
def test_a_node_that_is_there_is_waited_for_as_long_as_the_window() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    nominations.promise(["a"], "node", ready=True)
    assert nominations.places() == {"node"}
    clock.advance(WINDOW_S - 1)
    assert kept(nominations, "a", coming={"node": False}) == ["node"]
    clock.advance(1)
    assert kept(nominations, "a", coming={"node": False}) == [None]
    assert nominations.places() == frozenset()


def test_a_claim_is_waited_for_until_it_has_come_and_the_window_after() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    nominations.promise(["a"], "claim", ready=False)
    clock.advance(600)
    assert kept(nominations, "a", coming={"claim": True}) == ["claim"]
    assert kept(nominations, "a", coming={"claim": False}) == ["claim"]
    clock.advance(WINDOW_S)
    assert kept(nominations, "a", coming={"claim": False}) == [None]


def test_a_pod_of_a_claim_that_is_gone_is_free_to_be_planned_again() -> None:
    nominations = Nominations(ManualClock())
    nominations.promise(["a", "b"], "claim", ready=False)
    assert sorted(nominations.pods_of("claim")) == ["a", "b"]
    assert kept(nominations, "a", coming={}) == [None]
    assert len(nominations) == 0


def test_a_pod_that_is_bound_is_forgotten() -> None:
    nominations = Nominations(ManualClock())
    nominations.promise(["a", "b"], "claim", ready=False)
    nominations.keep(["b"], lambda _: True)
    assert nominations.pods_of("claim") == ["b"]


def came_up_without_it(nominations: Nominations, clock: ManualClock, pod: str) -> None:
    nominations.promise([pod], "claim", ready=False)
    nominations.keep([pod], {"claim": False}.get)  # the node is up, and the time to bind begins
    clock.advance(WINDOW_S)
    nominations.keep([pod], {"claim": False}.get)


def test_a_pod_that_is_bound_to_none_of_its_nodes_is_delayed_longer_with_each_of_them() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    for _ in range(NODES_MAX - 1):
        came_up_without_it(nominations, clock, "a")
    assert not nominations.delayed()
    for delay_s in (60, 120, 240):
        came_up_without_it(nominations, clock, "a")
        clock.advance(delay_s - 1)
        assert nominations.delayed() == {"a"}
        clock.advance(1)
        assert not nominations.delayed()
    for _ in range(20):
        came_up_without_it(nominations, clock, "a")
    clock.advance(3600)
    assert not nominations.delayed()


def test_a_pod_that_is_bound_or_deleted_is_forgotten() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    for _ in range(NODES_MAX):
        came_up_without_it(nominations, clock, "a")
    nominations.keep([], lambda _: None)
    assert not nominations.delayed()
    assert nominations.unbound("a") == 0


def test_a_node_that_was_there_before_does_not_count_as_launched_for_the_pod() -> None:
    clock = ManualClock()
    nominations = Nominations(clock)
    for _ in range(NODES_MAX):
        nominations.promise(["a"], "node", ready=True)
        clock.advance(WINDOW_S)
        nominations.keep(["a"], {"node": False}.get)
    assert not nominations.delayed()


def test_a_claim_is_void_once_none_of_its_pods_needs_it() -> None:
    nominations = Nominations(ManualClock())
    nominations.promise(["a", "b"], "claim", ready=False, written=True)
    nominations.keep(["b"], {"claim": True}.get)
    assert not nominations.is_void("claim")
    nominations.keep([], {"claim": True}.get)
    assert nominations.is_void("claim")
    nominations.promise(["c"], "claim", ready=False)
    assert not nominations.is_void("claim")


def test_a_claim_that_was_written_for_more_than_pods_is_never_void() -> None:
    nominations = Nominations(ManualClock())
    nominations.promise(["a"], "replacement", ready=False)
    nominations.keep([], {"replacement": True}.get)
    assert not nominations.is_void("replacement")


def test_a_claim_that_is_not_in_the_cache_yet_is_not_void() -> None:
    nominations = Nominations(ManualClock())
    nominations.promise(["a"], "claim", ready=False, written=True)
    nominations.keep(["a"], lambda _: None)
    assert not nominations.is_void("claim")
