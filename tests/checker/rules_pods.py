"""Rules: every pod is in the plan exactly once, and suits the place it was given."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from checker import daemons, labels, machines, quantities
from checker.case import Case, Place, Violation
from checker.shapes import Port, Shape
from checker.volumes import Volume


def once(case: Case) -> Iterator[Violation]:
    """pod-once, pod-unknown: each pending pod appears once, and nobody else does."""
    plan = case.plan
    listed = [name for one in plan["claims"] + plan["nodes"] for name in one["pods"]]
    listed += [one["pod"] for one in plan["unplaced"] + plan["waiting"]]
    pending = {pod.name for pod in case.world.pending()}
    times = Counter(listed)
    for name in sorted(pending):
        if times[name] != 1:
            yield Violation("pod-once", f"{name} is {times[name]} times in the plan")
    explained = [one["pod"] for one in plan.get("notReserved", ())]
    for name in sorted({*listed, *explained} - pending):
        yield Violation("pod-unknown", f"{name} is not a pending pod")


def explained(case: Case) -> Iterator[Violation]:
    """unplaced-reason: a pod without a place has a reason."""
    for one in case.plan["unplaced"]:
        if not one["reasons"] or not all(reason.get("code") for reason in one["reasons"]):
            yield Violation("unplaced-reason", f"{one['pod']} has no reason")


def nodes_exist(case: Case) -> Iterator[Violation]:
    """node-exists: pods go on nodes that are there and stay."""
    for one in case.plan["nodes"]:
        node = case.world.nodes.get(one["name"])
        if node is None or node.deleting:
            yield Violation("node-exists", f"{one['name']} is not a node that takes pods")


def taints(case: Case) -> Iterator[Violation]:
    """pod-taints: taints are tolerated; PreferNoSchedule is only a wish."""
    for place, shape, name in _planned_shapes(case):
        for taint in labels.untolerated(shape.tolerations, place.taints):
            yield Violation("pod-taints", f"{name} does not tolerate {taint} of {place.name}")


def selectors(case: Case) -> Iterator[Violation]:
    """pod-selector: nodeSelector and required node affinity hold on every machine the place could become."""
    for place, shape, name in _planned_shapes(case):
        for machine in place.machines:
            if not any(machines.surely(machine, term) for term in shape.terms):
                where = f"{place.name} as {machine.instance_type}"
                yield Violation("pod-selector", f"{name} does not select {where}")
                break


def resources(case: Case) -> Iterator[Violation]:
    """node-resources: what is on a node that exists, and the DaemonSets still to come, fits."""
    for place in case.nodes():
        if not place.planned:
            continue
        wanted = [pod.shape.requests for pod in place.pods]
        wanted.append(daemons.requests(daemons.missing(case, place, all_terms=False)))
        if not machines.fits(place.machines[0], *wanted):
            yield Violation("node-resources", f"the pods planned for {place.name} do not fit")


def ports(case: Case) -> Iterator[Violation]:
    """host-ports: no two pods of a node want the same one, DaemonSets of a new node included."""
    for place in case.places:
        if not place.planned:
            continue
        taken = [(pod.name, port) for pod in place.pods for port in pod.shape.ports]
        new = {pod.name for pod in place.planned}
        if place.node is None and place.chosen is not None:
            coming = daemons.least(case, place, place.chosen)
            taken += [(f"DaemonSet {i}", port) for i, shape in enumerate(coming) for port in shape.ports]
        for (first, one), (second, other) in combinations(taken, 2):
            if first != second and new & {first, second} and clash(one, other):
                yield Violation("host-ports", f"{first} and {second} both want {one[2]} on {place.name}")


def clash(one: Port, other: Port) -> bool:
    """Same number and protocol, and addresses that overlap (S-87)."""
    anywhere = ("0.0.0.0", "::")  # noqa: S104
    overlap = one[0] == other[0] or one[0] in anywhere or other[0] in anywhere
    return one[1:] == other[1:] and overlap


def volumes(case: Case) -> Iterator[Violation]:
    """pod-volumes: the claims exist, and every machine the place could become reaches them."""
    for place, shape, name in _planned_shapes(case):
        for claim in shape.volumes:
            volume = case.world.storage.volumes.get(f"{shape.namespace}/{claim}")
            if volume is None:
                yield Violation("pod-volumes", f"{name} uses {claim}, which does not exist")
            elif not all(_reaches(machine, volume) for machine in place.machines):
                yield Violation("pod-volumes", f"{name} cannot reach {claim} from {place.name}")


def volume_limits(case: Case) -> Iterator[Violation]:
    """volume-limits: a node attaches no more volumes of a driver than it can, whatever type it becomes."""
    for place in case.places:
        used = attached(case, [pod.shape for pod in place.pods])
        touched = attached(case, [pod.shape for pod in place.planned])
        for driver, names in used.items():
            limits = (machine.volume_limits.get(driver) for machine in place.machines if driver in touched)
            if any(limit is not None and len(names) > limit for limit in limits):
                yield Violation("volume-limits", f"{place.name}: {len(names)} volumes of {driver}")


def attaches(case: Case, shapes: list[Shape], machine: machines.Machine) -> bool:
    """Whether the volumes of these pods can be attached together."""
    limits = machine.volume_limits
    return not limits or all(
        len(names) <= limits.get(driver, len(names)) for driver, names in attached(case, shapes).items()
    )


def attached(case: Case, shapes: list[Shape]) -> dict[str, set[str]]:
    """The volumes that pods use, by driver."""
    found: dict[str, set[str]] = {}
    for shape in shapes:
        for claim in shape.volumes:
            volume = case.world.storage.volumes.get(f"{shape.namespace}/{claim}")
            if volume is not None:
                found.setdefault(volume.driver, set()).add(volume.name)
    return found


def _reaches(machine: machines.Machine, volume: Volume) -> bool:
    return not volume.terms or any(machines.surely(machine, term) for term in volume.terms)


def _planned_shapes(case: Case) -> Iterator[tuple[Place, Shape, str]]:
    """Each kind of pod that the plan puts on a place, with the name of one of them."""
    for place in case.places:
        seen: set[Shape] = set()
        for pod in place.planned:
            if pod.shape not in seen:
                seen.add(pod.shape)
                yield place, pod.shape, pod.name


def claim_requests(case: Case) -> Iterator[Violation]:
    """claim-requests: a claim asks for no less than its pods do."""
    for place in case.claims():
        wanted = quantities.total(pod.shape.requests for pod in place.planned)
        stated = quantities.resources(place.claim["requests"])
        if not quantities.fits(wanted, stated):
            yield Violation("claim-requests", f"{place.name} asks for less than its pods")
