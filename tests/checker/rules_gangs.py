"""Rules: of each gang enough pods have a node, or no pod gets one; and all of them have the same value of a node label."""

from collections.abc import Iterable, Iterator
from typing import Final

from checker import node_options, openings, preferences, rules_waiting
from checker.case import Case, Located, Violation
from checker.scenario import Gang
from checker.workloads import Pod

BEHIND: Final = "BehindGang"


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
