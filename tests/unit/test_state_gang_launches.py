"""Which NodeClaims of a gang launch must end, from the watch cache."""

from typing import Any

import pytest

from holdfast import names
from holdfast.api.answers import Unreadable
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim
from holdfast.ports import Change
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.watched_gang_launches import WatchedGangLaunches
from holdfast.state.conversion import gang_launches
from holdfast.state.conversion.gang_launches import GangLaunch
from manual_ports import ManualClock
from objects import nodeclaim, store

LAUNCH = GangLaunch("a1", 3)


def member(name: str, *conditions: str, launch: GangLaunch = LAUNCH) -> NodeClaim:
    status: dict[str, Any] = {
        "conditions": [
            {"type": one, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for one in conditions
        ]
    }
    return nodeclaim(name, {"annotations": launch.annotations}, status=status)


def watched(*claims: NodeClaim) -> tuple[Caches, WatchedGangLaunches]:
    caches = Caches([NodeClaim], clock=ManualClock())
    launches = WatchedGangLaunches(caches.of(NodeClaim))
    for claim in claims:
        store(caches, claim)
    return caches, launches


def test_no_nodeclaim_of_a_complete_launch_must_end() -> None:
    caches, launches = watched(*map(member, ("a", "b", "c")))
    store(caches, member("d", launch=GangLaunch("other", 1)))
    assert launches.ending() == frozenset()


def test_nodeclaims_without_the_others_must_end() -> None:
    _, launches = watched(member("a"), member("b", "Launched"))
    assert launches.ending() == {"a", "b"}
    assert launches.must_end(member("a"))


def test_nothing_must_end_while_this_process_creates_the_others() -> None:
    _, launches = watched(member("a"))
    with launches.writing([LAUNCH]):
        assert launches.ending() == frozenset()
    assert launches.ending() == {"a"}


def test_launched_nodeclaim_stays_if_another_is_registered() -> None:
    _, launches = watched(member("a", "Launched", "Registered"), member("b", "Launched"))
    assert launches.ending() == frozenset()


def test_nodeclaim_without_an_instance_must_end_also_if_another_is_registered() -> None:
    _, launches = watched(member("a", "Launched", "Registered"), member("b"))
    assert launches.ending() == {"b"}


def test_nothing_must_end_while_a_nodeclaim_cannot_be_decoded() -> None:
    """It may be the missing one."""
    caches, launches = watched(member("a"))
    meta = ObjectMeta(name="b", uid="b", resource_version="9")
    caches.of(NodeClaim).apply(Change("ADDED", Unreadable(metadata=meta, problem="no spec")))
    assert launches.ending() == frozenset()


@pytest.mark.parametrize("value", ["", "a1", "a1/0", "a1/x", "/3", "a b/3", "a1/1000000"])
def test_annotation_that_cannot_be_read_counts_as_no_launch(value: str) -> None:
    assert gang_launches.of(nodeclaim("a", {"annotations": {names.GANG_LAUNCH: value}})) is None
