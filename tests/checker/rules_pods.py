"""Rules: every pod is in the plan exactly once, and fits its node or claim."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from checker import daemons, labels, node_options, quantities
from checker.case import Case, Target, Violation
from checker.shapes import Port, Shape
from checker.volumes import Volume


def once(case: Case) -> Iterator[Violation]:
    """pod-once, pod-unknown: each pending pod appears once, and no other pod appears."""
    plan = case.plan
    listed = [name for one in plan["claims"] + plan["nodes"] for name in one["pods"]]
    listed += [one["pod"] for one in plan["unplaced"] + plan["waiting"]]
    pending = {pod.name for pod in case.scenario.pending()}
    times = Counter(listed)
    for name in sorted(pending):
        if times[name] != 1:
            yield Violation("pod-once", f"{name} is {times[name]} times in the plan")
    explained = [one["pod"] for one in plan.get("notReserved", ())]
    for name in sorted({*listed, *explained} - pending):
        yield Violation("pod-unknown", f"{name} is not a pending pod")


def explained(case: Case) -> Iterator[Violation]:
    """unplaced-reason: an unplaced pod has a reason."""
    for one in case.plan["unplaced"]:
        if not one["reasons"] or not all(reason.get("code") for reason in one["reasons"]):
            yield Violation("unplaced-reason", f"{one['pod']} has no reason")


def nodes_exist(case: Case) -> Iterator[Violation]:
    """node-exists: pods are placed on nodes that exist and are not being deleted."""
    for one in case.plan["nodes"]:
        node = case.scenario.nodes.get(one["name"])
        if node is None or node.deleting:
            yield Violation("node-exists", f"{one['name']} is not a node that takes pods")


def taints(case: Case) -> Iterator[Violation]:
    """pod-taints: taints are tolerated; PreferNoSchedule is only a preference."""
    for target, shape, name in _planned_shapes(case):
        for taint in labels.untolerated(shape.tolerations, target.taints):
            yield Violation("pod-taints", f"{name} does not tolerate {taint} of {target.name}")


def selectors(case: Case) -> Iterator[Violation]:
    """pod-selector: nodeSelector and required node affinity hold on every option of the target."""
    for target, shape, name in _planned_shapes(case):
        for option in target.options:
            if not any(node_options.surely(option, term) for term in shape.terms):
                where = f"{target.name} as {option.instance_type}"
                yield Violation("pod-selector", f"{name} does not select {where}")
                break


def resources(case: Case) -> Iterator[Violation]:
    """node-resources: the pods on an existing node and its missing DaemonSet pods fit."""
    for target in case.nodes():
        if not target.planned:
            continue
        wanted = [pod.shape.requests for pod in target.pods]
        wanted.append(daemons.requests(daemons.missing(case, target, all_terms=False)))
        if not node_options.fits(target.options[0], *wanted):
            yield Violation("node-resources", f"the pods planned for {target.name} do not fit")


def ports(case: Case) -> Iterator[Violation]:
    """host-ports: no two pods of a node use the same host port, including DaemonSets of a new node."""
    for target in case.targets:
        if not target.planned:
            continue
        used_ports = [(pod.name, port) for pod in target.pods for port in pod.shape.ports]
        new = {pod.name for pod in target.planned}
        if target.node is None and target.chosen is not None:
            coming = daemons.least(case, target, target.chosen)
            used_ports += [(f"DaemonSet {i}", port) for i, shape in enumerate(coming) for port in shape.ports]
        for (first, one), (second, other) in combinations(used_ports, 2):
            if first != second and new & {first, second} and clash(one, other):
                yield Violation("host-ports", f"{first} and {second} both want {one[2]} on {target.name}")


def clash(one: Port, other: Port) -> bool:
    """Same number and protocol, and addresses that overlap (S-87)."""
    anywhere = ("0.0.0.0", "::")  # noqa: S104
    overlap = one[0] == other[0] or one[0] in anywhere or other[0] in anywhere
    return one[1:] == other[1:] and overlap


def volumes(case: Case) -> Iterator[Violation]:
    """pod-volumes: the PersistentVolumeClaims exist, and every option of the target can reach them."""
    for target, shape, name in _planned_shapes(case):
        for claim in shape.volumes:
            volume = case.scenario.storage.volumes.get(f"{shape.namespace}/{claim}")
            if volume is None:
                yield Violation("pod-volumes", f"{name} uses {claim}, which does not exist")
            elif not all(_reaches(option, volume) for option in target.options):
                yield Violation("pod-volumes", f"{name} cannot reach {claim} from {target.name}")


def volume_limits(case: Case) -> Iterator[Violation]:
    """volume-limits: a node attaches no more volumes of a driver than its limit, for every option."""
    for target in case.targets:
        used = attached(case, [pod.shape for pod in target.pods])
        added = attached(case, [pod.shape for pod in target.planned])
        for driver, names in used.items():
            limits = (option.volume_limits.get(driver) for option in target.options if driver in added)
            if any(limit is not None and len(names) > limit for limit in limits):
                yield Violation("volume-limits", f"{target.name}: {len(names)} volumes of {driver}")


def attaches(case: Case, shapes: list[Shape], option: node_options.NodeOption) -> bool:
    """Whether the volumes of these pods can be attached together."""
    limits = option.volume_limits
    return not limits or all(
        len(names) <= limits.get(driver, len(names)) for driver, names in attached(case, shapes).items()
    )


def attached(case: Case, shapes: list[Shape]) -> dict[str, set[str]]:
    """The volumes that pods use, by driver."""
    found: dict[str, set[str]] = {}
    for shape in shapes:
        for claim in shape.volumes:
            volume = case.scenario.storage.volumes.get(f"{shape.namespace}/{claim}")
            if volume is not None:
                found.setdefault(volume.driver, set()).add(volume.name)
    return found


def _reaches(option: node_options.NodeOption, volume: Volume) -> bool:
    return not volume.terms or any(node_options.surely(option, term) for term in volume.terms)


def _planned_shapes(case: Case) -> Iterator[tuple[Target, Shape, str]]:
    """Each shape that the plan places on a target, with the name of one of its pods."""
    for target in case.targets:
        known_shapes: set[Shape] = set()
        for pod in target.planned:
            if pod.shape not in known_shapes:
                known_shapes.add(pod.shape)
                yield target, pod.shape, pod.name


def claim_requests(case: Case) -> Iterator[Violation]:
    """claim-requests: a claim requests no less than its pods do."""
    for target in case.claims():
        wanted = quantities.total(pod.shape.requests for pod in target.planned)
        stated = quantities.resources(target.claim["requests"])
        if not quantities.fits(wanted, stated):
            yield Violation("claim-requests", f"{target.name} asks for less than its pods")
