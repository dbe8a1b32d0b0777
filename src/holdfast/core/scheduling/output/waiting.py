"""Decides which classes wait for a slot instead of a node launched on demand or on spot.

Called by `solve` before it packs. By default pods fall back in the same run. A pod waits only if a setting or its
NodePool enables it, only for a slot that is held or releasing, and no longer than the limit. A pod that still runs on a
deleting node does not wait yet. In strict mode, as in Karpenter, every pod waits whose first suitable NodePool has
slots for it, or only full reservations (R-20).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.core.reservations.ledger import Entry
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.request import ReservedMode
from holdfast.core.scheduling.output.checks import Checks
from holdfast.model.snapshot import NodePoolView


@dataclass(frozen=True)
class Wait:
    """The reservation that a class waits for, and until when; None: without limit."""

    reservation: str
    until_s: int | None


def waiting_classes(p: Problem) -> dict[int, Wait]:
    """The classes that wait, by index."""
    if not p.settings.reserved_capacity or not p.ledger:
        return {}
    strict = p.settings.reserved_mode is ReservedMode.STRICT
    if not strict and not any(_wait_limit_s(p, pool) for pool in p.pools):
        return {}
    of_class = _strict_waits if strict else _bounded_waits
    checks = Checks(p)
    found = ((c, next(of_class(p, c, checks), None)) for c in range(len(p.classes)))
    return {c: wait for c, wait in found if wait is not None}


def waiting_flags(p: Problem, waiting: dict[int, Wait]) -> NDArray[np.uint8]:
    flags = np.zeros(len(p.classes), dtype=np.uint8)
    flags[list(waiting)] = 1
    return flags


def _bounded_waits(p: Problem, c: int, checks: Checks) -> Iterator[Wait]:
    """The reservations that a class may wait for, in the order of their NodePools."""
    now_s = p.snapshot.taken_s
    since_s = min((pod.created_s for pod in p.classes[c].pods if pod.node_name is None), default=now_s)
    releasing = _releasing_reservations(p)
    for index, pool in enumerate(p.pools):
        limit_s = _wait_limit_s(p, pool)
        until_s = since_s + limit_s
        if limit_s and now_s < until_s:
            for id_ in checks.reservations_for(c, index):
                if _may_become_free(p.ledger[id_], releasing):
                    yield Wait(id_, until_s)


def _strict_waits(p: Problem, c: int, checks: Checks) -> Iterator[Wait]:
    """The reservations that a class waits for in strict mode, up to the first NodePool with an unreserved offering."""
    for pool in range(len(p.pools)):
        usable = [id_ for id_ in checks.reservations_for(c, pool) if p.ledger[id_].usable]
        yield from (Wait(id_, None) for id_ in usable if p.ledger[id_].free)
        if checks.has_unreserved_offering(c, pool):
            return
        yield from (Wait(id_, None) for id_ in usable)


def _wait_limit_s(p: Problem, pool: NodePoolView) -> int:
    return p.settings.reservation_wait_s if pool.reservation_wait_s is None else pool.reservation_wait_s


def _releasing_reservations(p: Problem) -> set[str | None]:
    """Reservations in which instances of NodeClaims that are being deleted still run."""
    return {
        claim.reservation_id for claim in p.snapshot.claims if claim.deleting and claim.launched_s is not None
    }


def _may_become_free(entry: Entry, releasing: set[str | None]) -> bool:
    """Whether a slot is held or being released, so that one may soon be free."""
    return entry.usable and (entry.held > 0 or entry.releasing > 0 or entry.reservation.id in releasing)
