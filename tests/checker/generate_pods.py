"""Random pod templates with every kind of scheduling constraint."""

from collections.abc import Iterator
from typing import Final

from checker import generate_catalog, generate_pools
from checker.dice import Dice
from checker.generate_catalog import Document
from checker.generate_pools import wanted
from holdfast import names
from holdfast.api import aws

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_DOMAINS: Final = (names.ZONE, names.HOSTNAME, generate_pools.RACK)


def template(dice: Dice, app: str, claims: list[str], ids: list[str]) -> Document:
    """A pod template. `claims` are PersistentVolumeClaims of its namespace, `ids` reservations."""
    labels = {"app": app, "tier": dice.pick(("front", "back")), "pod-template-hash": f"h{dice.number(1, 2)}"}
    spec: Document = {"containers": [container(dice)]}
    if dice.chance(0.1):
        spec["initContainers"] = [_init(dice)]
    if dice.chance(0.25):
        spec["nodeSelector"] = _node_selector(dice, ids)
    if dice.chance(0.35):
        spec["tolerations"] = list(_tolerations(dice))
    affinity = dict(_affinity(dice, app))
    if affinity:
        spec["affinity"] = affinity
    spreads = list(_spreads(dice, app)) if dice.chance(0.3) else []
    if spreads:
        spec["topologySpreadConstraints"] = spreads
    if claims and dice.chance(0.15):
        claim = "missing" if dice.chance(0.1) else dice.pick(claims)
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": {"labels": labels}, "spec": spec}


def container(dice: Dice) -> Document:
    requests = {
        "cpu": dice.pick(("50m", "250m", "500m", "1", "1500m", "3", "6")),
        "memory": dice.pick(("64Mi", "256Mi", "1Gi", "2Gi", "7Gi", "20Gi")),
    }
    found: Document = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    if dice.chance(0.08):
        requests[generate_catalog.GPU] = "1"
        found["resources"]["limits"] = {generate_catalog.GPU: "1"}
    if dice.chance(0.08):
        found["ports"] = [{"containerPort": 80, "hostPort": dice.pick((8080, 9100))}]
    return found


def _init(dice: Dice) -> Document:
    requests = {"cpu": dice.pick(("100m", "2")), "memory": "128Mi"}
    found: Document = {"name": "init", "image": "example.com/init:1", "resources": {"requests": requests}}
    return found | {"restartPolicy": "Always"} if dice.chance(0.5) else found


def _node_selector(dice: Dice, ids: list[str]) -> Document:
    choices = [
        {names.ARCH: dice.pick(("amd64", "arm64"))},
        {names.ZONE: dice.pick(generate_catalog.ZONES)},
        {names.CAPACITY_TYPE: dice.pick(names.CAPACITY_TYPES)},
        {generate_pools.TEAM: dice.pick(generate_catalog.TEAMS)},
        {generate_pools.RACK: dice.pick(generate_pools.RACKS)},
        {aws.INSTANCE_FAMILY: dice.pick(generate_catalog.FAMILIES).name},
        {aws.CAPACITY_RESERVATION_TYPE: dice.pick(("default", "capacity-block"))},
    ]
    if ids:
        choices.append({aws.CAPACITY_RESERVATION_ID: dice.pick(ids)})
    return dice.pick(choices)


def _tolerations(dice: Dice) -> Iterator[Document]:
    match dice.number(0, 3):
        case 0:
            yield {"operator": "Exists"}
        case 1:
            yield {"key": generate_pools.TAINT, "operator": "Exists", "effect": "NoSchedule"}
        case 2:
            yield {"key": "example.com/slow", "operator": "Exists"}
        case _:
            yield {"key": generate_pools.TAINT, "value": dice.pick(generate_catalog.TEAMS)}


def _affinity(dice: Dice, app: str) -> Iterator[tuple[str, Document]]:
    node: Document = {}
    if dice.chance(0.25):
        terms = [_node_term(dice) for _ in range(dice.number(1, 3))]
        node[_REQUIRED] = {"nodeSelectorTerms": terms}
    if dice.chance(0.12):
        node[_PREFERRED] = [{"weight": dice.number(1, 100), "preference": _node_term(dice)}]
    if node:
        yield "nodeAffinity", node
    if dice.chance(0.1):
        yield "podAffinity", _pods(dice, app, dice.pick((names.ZONE, names.HOSTNAME)))
    if dice.chance(0.15):
        key = dice.pick((names.HOSTNAME, names.HOSTNAME, names.ZONE, generate_pools.RACK))
        yield "podAntiAffinity", _pods(dice, app, key)


def _pods(dice: Dice, app: str, key: str) -> Document:
    term = _neighbours(dice, app, key)
    if dice.chance(0.2):
        return {_PREFERRED: [{"weight": dice.number(1, 100), "podAffinityTerm": term}]}
    return {_REQUIRED: [term]}


def _node_term(dice: Dice) -> Document:
    choices = (
        wanted(names.ARCH, "In", dice.pick(("amd64", "arm64"))),
        wanted(names.ZONE, dice.pick(("In", "NotIn")), *dice.some(generate_catalog.ZONES[:3])),
        wanted(names.CAPACITY_TYPE, "NotIn", names.SPOT),
        wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND),
        wanted(aws.INSTANCE_CPU, dice.pick(("Gt", "Lt")), dice.pick(("3", "9"))),
        wanted(aws.INSTANCE_CATEGORY, "In", *dice.some(("m", "c", "r"))),
        wanted(aws.CAPACITY_RESERVATION_ID, dice.pick(("Exists", "DoesNotExist"))),
        wanted(generate_pools.TEAM, dice.pick(("NotIn", "In")), dice.pick(generate_catalog.TEAMS)),
        wanted(generate_pools.RACK, dice.pick(("Exists", "DoesNotExist"))),
    )
    return {"matchExpressions": dice.shuffled(choices)[: dice.number(1, 2)]}


def _neighbours(dice: Dice, app: str, key: str) -> Document:
    found: Document = {"topologyKey": key, "labelSelector": {"matchLabels": _selected_labels(dice, app)}}
    match dice.number(0, 9):
        case 0:
            found["namespaceSelector"] = {}
        case 1:
            found["namespaceSelector"] = {"matchLabels": {"env": "prod"}}
        case 2:
            found["namespaces"] = ["default", "shop"]
    return found


def _selected_labels(dice: Dice, app: str) -> Document:
    """Mostly its own pods; otherwise those of another workload."""
    if dice.chance(0.7):
        return {"app": app}
    return dice.pick(({"tier": "front"}, {"app": f"app-{dice.number(0, 3)}"}))


def _spreads(dice: Dice, app: str) -> Iterator[Document]:
    for key in dice.shuffled(_DOMAINS)[: dice.pick((1, 1, 2))]:
        found: Document = {
            "topologyKey": key,
            "maxSkew": dice.pick((1, 1, 2)),
            "whenUnsatisfiable": dice.pick(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": _selected_labels(dice, app)},
        }
        if found["whenUnsatisfiable"] == "DoNotSchedule" and dice.chance(0.2):
            found["minDomains"] = dice.number(2, 4)
        if dice.chance(0.2):
            found["matchLabelKeys"] = ["pod-template-hash"]
        if dice.chance(0.15):
            found["nodeAffinityPolicy"] = "Ignore"
        if dice.chance(0.15):
            found["nodeTaintsPolicy"] = "Honor"
        yield found
