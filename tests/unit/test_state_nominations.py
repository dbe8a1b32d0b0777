"""Pods on their way to a node: what is believed, and for how long."""

import pytest

from doors import ManualClock
from holdfast.state.nominations import WINDOW_S, Nominations


def kept(nominations: Nominations, *pods: str, coming: dict[str, bool]) -> list[str | None]:
    nominations.keep(pods, coming.get)
    return [nominations.place_of(pod) for pod in pods]


@pytest.mark.fact("ST-12")
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
