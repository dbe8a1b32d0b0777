"""Rules: which pods wait for a slot, and for how long."""

import datetime as dt
from collections.abc import Iterator

from checker import catalog, openings, preferences
from checker.case import Case, Violation
from checker.catalog import Reservation
from checker.node_options import NodeOption
from checker.scenario import Pool
from checker.shapes import Shape


def waiting(case: Case) -> Iterator[Violation]:
    """waiting: for an existing reservation that fits the pod, until a bounded time, and only if waiting is configured. In
    strict mode there is no bound."""
    for one in case.plan["waiting"]:
        name, until = one["pod"], one.get("until")
        pod, reservation = case.scenario.pods.get(name), case.reservations.get(one.get("reservation") or "")
        if reservation is None:
            yield Violation(
                "waiting", f"{name} waits for {one.get('reservation')}, which is not a reservation"
            )
        elif pod is not None and not _could_serve(case, pod.shape, reservation):
            yield Violation("waiting", f"{name} waits for {reservation.id}, which would not serve it")
        elif not is_strict(case) and (wrong := _wrong_bound(case, until)):
            yield Violation("waiting", f"{name} waits {wrong}")


def _wrong_bound(case: Case, until: str | None) -> str | None:
    longest = max((pool.wait_s for pool in case.scenario.pools.values() if pool.opens), default=0)
    latest = case.scenario.now + dt.timedelta(seconds=longest)
    if not until or not longest:
        return "without a bound"
    return None if case.scenario.now <= catalog.moment(until) <= latest else f"until {until}"


def is_strict(case: Case) -> bool:
    return bool(case.scenario.settings.get("reservedMode", "fallback") == "strict")


def strict(case: Case) -> Iterator[Violation]:
    """strict-mode: no node is launched for pods that must wait (R-20a). They may use a node launched for another pod (R-23)."""
    known: dict[Shape, bool] = {}
    for target in case.claims() if is_strict(case) else ():
        if target.claim.get("reservationID") is None:
            for shape in {pod.shape for pod in target.planned} - set(known):
                known[shape] = _must_wait(case, shape)
            if all(known[pod.shape] for pod in target.planned):
                yield Violation("strict-mode", f"the pods on {target.name} do not wait for a slot")


def _must_wait(case: Case, shape: Shape) -> bool:
    """Whether a reservation of its first NodePool fits the pod and had free slots at the start. Unknown, so false, for pods
    with constraints on other pods."""
    first = _first_pool(case, shape)
    return first is not None and any(
        case.scenario.free(found) and _serves(case, shape, first, found)
        for found in case.reservations.values()
    )


def _first_pool(case: Case, shape: Shape) -> Pool | None:
    """The NodePool that certainly comes first: the only one with the highest weight among those that fit, without limits."""
    tied = shape.spreads or shape.affinity or shape.anti_affinity
    if tied or shape.prefers or any(pool.limits for pool in case.scenario.pools.values()):
        return None
    serving = [pool for pool in case.scenario.pools.values() if _options(case, shape, pool)]
    heaviest = [pool for pool in serving if pool.weight == max(one.weight for one in serving)]
    return heaviest[0] if len(heaviest) == 1 else None


def _could_serve(case: Case, shape: Shape, found: Reservation) -> bool:
    return found.healthy and any(_serves(case, shape, pool, found) for pool in case.scenario.pools.values())


def _serves(case: Case, shape: Shape, pool: Pool, found: Reservation) -> bool:
    return any(one.reservation and one.reservation.id == found.id for one in _options(case, shape, pool))


def _options(case: Case, shape: Shape, pool: Pool) -> list[NodeOption]:
    """Every option of a NodePool that fits the pod alone, whether a slot is free or not."""
    rung, found = preferences.required(case, shape), case.pool_options[pool.name]
    if openings.is_repelled(rung, pool.taints):
        return []
    return [
        one for way in openings.ways(case, rung) for one in openings.fitting(case, pool, found, way, [shape])
    ]
