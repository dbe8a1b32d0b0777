"""Rules: of each gang enough pods have a node, or no pod gets one; and all of them have the same value of a node label."""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Final

from checker import node_options, openings, preferences, quantities, rules_waiting
from checker.case import Case, Located, Violation
from checker.scenario import Gang
from checker.workloads import Pod

BEHIND: Final = "BehindGang"
HOLDS: Final = "HoldsSlots"


def whole(case: Case) -> Iterator[Violation]:
    """gang-whole: if the plan has a node for a pod of a gang, at least minCount pods of the gang have one."""
    for name, gang in case.scenario.gangs.items():
        there = _located(case, name)
        if any(one.planned for one in there) and not _is_whole(gang, there):
            yield Violation("gang-whole", f"{len(there)} pods of {name} have a node, {gang.least} are needed")


def together(case: Case) -> Iterator[Violation]:
    """gang-together: planned pods of a gang with a topology constraint are in the domain of its running pods, else all in
    one domain, which is certain."""
    for name, gang in case.scenario.gangs.items():
        if not _are_together(gang, _located(case, name)):
            yield Violation("gang-together", f"pods of {name} may have several values of {gang.together}")


def _are_together(gang: Gang, there: list[Located]) -> bool:
    if gang.together is None:
        return True
    running = {one.target.domain(gang.together) for one in there if not one.planned} - {None}
    planned = {one.target.domains(gang.together) for one in there if one.planned}
    values = frozenset().union(*planned)
    if any(len(one) != 1 for one in planned):
        return False
    return values <= running if running else len(values) <= 1


def left_out(case: Case) -> Iterator[Violation]:
    """gang-left-out: no gang is left out if a NodePool without limits can launch a node on demand or on spot for each of
    its pods."""
    if rules_waiting.is_strict(case) or any(pool.wait_s for pool in case.scenario.pools.values()):
        return
    for name, gang in case.scenario.gangs.items():
        there = _located(case, name)
        pending = [pod for pod in case.scenario.pending() if pod.group == name]
        if gang.least is None or gang.together or _is_whole(gang, there):
            continue
        running = sum(not one.planned for one in there)
        if running + len(pending) >= gang.least and all(_can_be_launched(case, pod) for pod in pending):
            yield Violation("gang-left-out", f"each pod of {name} could get a node of its own")


def hold(case: Case) -> Iterator[Violation]:
    """gang-hold: slots are held only if the setting enables it, for one gang that has no nodes, and for a bounded time."""
    names = holding(case)
    if len(names) > 1:
        yield Violation("gang-hold", f"{len(names)} gangs hold slots")
    bound = dt.timedelta(seconds=float(quantities.seconds(case.scenario.settings.get("gangHold", "0s"))))
    for name in sorted(names):
        gang = case.scenario.gangs.get(name)  # None: of labels
        since = gang.since if gang is not None and gang.since is not None else case.scenario.now
        if not case.scenario.now < since + bound:
            yield Violation("gang-hold", f"{name} holds slots for longer than {bound}")
        if gang is not None and _is_whole(gang, _located(case, name)):
            yield Violation("gang-hold", f"{name} holds slots and has nodes")


def holding(case: Case) -> set[str]:
    """The gangs that hold slots according to the reasons of the plan."""
    reasons = (reason for one in case.plan["unplaced"] for reason in one["reasons"])
    return {name for reason in reasons if reason["code"] == HOLDS for name in reason.get("subjects", ())}


def _can_be_launched(case: Case, pod: Pod) -> bool:
    """Whether a node of its own can be launched for the pod, whatever is launched for others."""
    shape = pod.shape
    if shape.spreads or shape.affinity or shape.anti_affinity or shape.volumes:
        return False
    rung = preferences.required(case, shape)
    return any(
        any(node_options.launchable(case.pool_options[pool.name]))
        and any(openings.fresh(case, rung, pool, None, reserved=False))
        for pool in case.scenario.pools.values()
        if not pool.limits
    )


def may_be_left_out(case: Case, pod: Pod, codes: set[str]) -> bool:
    """Whether a pod that fits alone may be unplaced: its gang is not whole or is tied, or a gang comes first."""
    gang = case.scenario.gangs.get(pod.group)
    is_whole = gang is None or _is_whole(gang, _located(case, pod.group))
    return BEHIND in codes or not is_whole or is_tied(case, pod)


def is_tied(case: Case, pod: Pod) -> bool:
    """Whether the pod needs the same value of a node label as the other pods of its gang, so it cannot move alone."""
    return bool(tied_keys(case, [pod]))


def tied_keys(case: Case, pods: Iterable[Pod]) -> set[str]:
    """The node labels of which these pods need the same value as the other pods of their gangs."""
    gangs = (case.scenario.gangs.get(pod.group) for pod in pods)
    return {gang.together for gang in gangs if gang is not None and gang.together is not None}


def broken(case: Case) -> Iterator[str]:
    """The gangs that violate a rule."""
    for name, gang in sorted(case.scenario.gangs.items()):
        there = _located(case, name)
        if any(one.planned for one in there) and not (_is_whole(gang, there) and _are_together(gang, there)):
            yield name


def _located(case: Case, name: str) -> list[Located]:
    return [one for one in case.located() if one.pod.group == name]


def _is_whole(gang: Gang, there: list[Located]) -> bool:
    return gang.least is not None and len(there) >= gang.least
