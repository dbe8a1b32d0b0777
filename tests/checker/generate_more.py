"""Additional features of scenarios, added to a plain one with random numbers of their own.

So the plain scenario of a seed, which the comparison with Karpenter uses (`generate.plain`), does not change when a feature
is added here.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from checker import generate_storage, quantities, shapes
from checker.dice import Dice
from checker.generate_catalog import NOW, Document
from checker.generate_pools import wanted
from checker.workloads import GROUP_KEY, GROUP_SIZE, JOB_SET, JOB_SET_UID, REPLICATED
from holdfast import names

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_JUST_NOW: Final = "2026-11-15T09:59:00Z"


def add(dice: Dice, documents: list[Document]) -> list[Document]:
    """Changes the documents, and returns documents to add."""
    _catalog(dice, documents[0]["spec"])
    pools = [one for one in documents if one["kind"] == "NodePool"]
    if dice.chance(0.12):
        _disable(dice, pools[-1])
    for one in documents:
        match one["kind"]:
            case "DaemonSet" if dice.chance(0.2):
                selector = {names.CAPACITY_TYPE: dice.pick(names.CAPACITY_TYPES)}
                one["spec"]["template"]["spec"]["nodeSelector"] = selector
            case "NodeClaim" if "nodeName" in one.get("status", {}) and dice.chance(0.1):
                _delete(one)
            case "PersistentVolumeClaim" if dice.chance(0.05):
                _delete(one)
            case "Pod" if "nodeName" in one["spec"]:
                _running(dice, one)
    for spec in _templates(documents):
        _template(dice, spec)
    _run_times(dice, documents)
    _claim_templates(dice, documents)
    return [*_budgets(dice), *_pod_groups(dice, documents)]


def _run_times(dice: Dice, documents: list[Document]) -> None:
    """How long pods may run: most are shorter than the blocks that end, some are longer."""
    if not dice.chance(0.5):
        return
    for one in documents:
        if one["kind"] == "Job" and dice.chance(0.5):
            one["spec"]["activeDeadlineSeconds"] = dice.pick((600, 7200, 10**6))
            if dice.chance(0.5):
                one["status"] = one.get("status", {}) | {"startTime": "2026-11-15T08:00:00Z"}
        elif one["kind"] == "Pod" and dice.chance(0.2):
            one["spec"]["activeDeadlineSeconds"] = dice.pick((60, 3600, 10**6))
        elif one["kind"] in REPLICATED and dice.chance(0.4):
            template = one["spec"]["template"]
            annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
            annotations[names.MAX_RUN_DURATION] = dice.pick(("30m", "4h", "100h", "200h"))


def _catalog(dice: Dice, spec: Document) -> None:
    """Feature gate off, strict mode, volume limits of instance types, reservations that an offering names."""
    if dice.chance(0.06):
        spec["settings"]["reservedCapacity"] = False
    if dice.chance(0.08):
        spec["settings"]["reservedMode"] = "strict"
    if dice.chance(0.3):
        spec["settings"]["gangHold"] = dice.pick(("10m", "55m", "4h"))
    by_name = {one["name"]: one for one in spec["instanceTypes"]}
    for one in by_name.values():
        if dice.chance(0.3):
            one["volumeLimits"] = {generate_storage.DRIVER: dice.number(0, 3)}
    for one in spec["reservations"]:
        if dice.chance(0.1):
            offering = {"zone": one["zone"], "zoneID": f"usw2-az{one['zone'][-1]}"}
            offering |= {"capacityType": names.RESERVED, "reservation": {"id": one["id"]}}
            by_name[one["instanceType"]]["offerings"].append(offering)


def _disable(dice: Dice, pool: Document) -> None:
    """A NodePool that launches no nodes: it is static, is being deleted, or is not Ready."""
    match dice.number(0, 3):
        case 0:
            _delete(pool)
        case 1:
            failed = {"type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": ""}
            pool["status"] = {"conditions": [failed | {"lastTransitionTime": NOW}]}
        case _:
            pool["spec"]["replicas"] = 2
            pool["spec"].pop("weight", None)
            pool["spec"].pop("limits", None)


def _delete(document: Document) -> None:
    """Sets deletionTimestamp and a finalizer."""
    document["metadata"]["deletionTimestamp"] = _JUST_NOW
    document["metadata"]["finalizers"] = ["example.com/wait"]


def _running(dice: Dice, pod: Document) -> None:
    if dice.chance(0.05):
        pod["metadata"]["annotations"] = {names.DO_NOT_DISRUPT: "true"}
    if dice.chance(0.03):
        pod["metadata"] |= {"deletionTimestamp": _JUST_NOW, "deletionGracePeriodSeconds": 30}


def _templates(documents: list[Document]) -> Iterator[Document]:
    """The pod specs, each once."""
    known_ids: set[int] = set()
    for one in documents:
        if one["kind"] == "Pod" and not any(owner["kind"] == "DaemonSet" for owner in _owners(one)):
            spec = one["spec"]
        elif one["kind"] in REPLICATED:
            spec = one["spec"]["template"]["spec"]
        else:
            continue
        if id(spec) not in known_ids:
            known_ids.add(id(spec))
            yield spec


def _owners(pod: Document) -> list[Document]:
    return list(pod["metadata"].get("ownerReferences", []))


def _template(dice: Dice, spec: Document) -> None:
    if "nodeName" not in spec:
        if dice.chance(0.08):
            spec["resources"] = _pod_level(dice, spec)
        if dice.chance(0.03):
            spec["schedulingGates"] = [{"name": "example.com/quota"}]
        if dice.chance(0.2):
            spec["priority"] = dice.pick((-10, 100, 1000))
    affinity = spec.get("affinity", {})
    node = affinity.get("nodeAffinity", {})
    if _REQUIRED in node and dice.chance(0.05):
        named = [wanted("metadata.name", "In", f"node-{dice.number(0, 2)}")]
        node[_REQUIRED]["nodeSelectorTerms"][0]["matchFields"] = named
    if dice.chance(0.08):
        preferred = [_preference(dice) for _ in range(dice.number(1, 2))]
        node[_PREFERRED] = [*node.get(_PREFERRED, []), *preferred]
        spec["affinity"] = affinity | {"nodeAffinity": node}
    for side in ("podAffinity", "podAntiAffinity"):
        for term in affinity.get(side, {}).get(_REQUIRED, [])[:1]:
            if dice.chance(0.15):
                term[dice.pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["pod-template-hash"]
            if dice.chance(0.2):
                affinity[side] = {_PREFERRED: [{"weight": dice.number(1, 100), "podAffinityTerm": term}]}


def _pod_level(dice: Dice, spec: Document) -> Document:
    """No less than the requests of the containers, as the API server requires."""
    asked = shapes.requests(spec)
    cpu = quantities.amounts({"cpu": asked["cpu"] + dice.pick((0, 1, 3)) * quantities.ONE})
    return {"requests": cpu} if dice.chance(0.7) else {"requests": cpu, "limits": cpu}


def _preference(dice: Dice) -> Document:
    choices = (
        wanted(names.NODEPOOL, "In", f"pool-{dice.number(0, 2)}"),
        wanted(names.CAPACITY_TYPE, "In", dice.pick(names.CAPACITY_TYPES)),
        wanted(names.ZONE, "In", f"us-west-2{dice.pick('abcd')}"),
    )
    return {"weight": dice.number(1, 100), "preference": {"matchExpressions": [dice.pick(choices)]}}


def _claim_templates(dice: Dice, documents: list[Document]) -> None:
    """StatefulSets whose pods have PersistentVolumeClaims of their own, not bound yet."""
    owners = {owner["name"] for one in documents if one["kind"] == "Pod" for owner in _owners(one)}
    for one in documents:
        if one["kind"] == "StatefulSet" and one["metadata"]["name"] not in owners and dice.chance(0.3):
            size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
            spec = size | {"storageClassName": dice.pick(("anywhere", "zonal"))}
            one["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]


def _budgets(dice: Dice) -> Iterator[Document]:
    """PodDisruptionBudgets; some never allow an eviction."""
    choices: tuple[Document, ...] = ({"maxUnavailable": 0}, {"minAvailable": "100%"}, {"maxUnavailable": 1})
    for index in range(dice.pick((0, 0, 0, 1, 2))):
        spec = {"selector": {"matchLabels": {"app": f"app-{index}"}}, **dice.pick(choices)}
        metadata = {"name": f"budget-{index}", "namespace": dice.pick(generate_storage.NAMESPACES)}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        yield kind | {"metadata": metadata, "spec": spec}


def label(dice: Dice, documents: list[Document]) -> None:
    """Makes some workloads and pods parts of JobSets and of groups of LeaderWorkerSets. Some sizes cannot be used."""
    if not dice.chance(0.25):
        return
    for one in documents:
        if one["kind"] not in (*REPLICATED, "Pod") or any(o["kind"] == "DaemonSet" for o in _owners(one)):
            continue
        if not dice.chance(0.15 if one["kind"] == "Pod" else 0.5):
            continue
        template = one if one["kind"] == "Pod" else one["spec"]["template"]
        metadata = template.setdefault("metadata", {})
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        number = dice.number(0, 1)
        if dice.chance(0.5):
            metadata["labels"] = labels | {f"{JOB_SET}jobset-name": "train", JOB_SET_UID: f"uid-{number}"}
        else:
            metadata["labels"] = labels | {GROUP_KEY: f"key-{number}"}
            metadata["annotations"] = annotations | {GROUP_SIZE: dice.pick(("2", "64", "64", "many"))}


def _pod_groups(dice: Dice, documents: list[Document]) -> Iterator[Document]:
    """PodGroups of some workloads and pods. Some need more pods than there are, and some do not exist."""
    if not dice.chance(0.35):
        return
    sizes: Counter[tuple[str, str]] = Counter()
    of_spec: dict[int, tuple[str, str]] = {}  # pods of one workload share their spec
    for one in documents:
        if one["kind"] not in (*REPLICATED, "Pod") or any(o["kind"] == "DaemonSet" for o in _owners(one)):
            continue
        template = one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"]
        where = one["metadata"].get("namespace", "default")
        if id(template) not in of_spec and dice.chance(0.15 if "nodeName" in template else 0.5):
            of_spec[id(template)] = where, f"group-{dice.number(0, 2)}"
            template["schedulingGroup"] = {"podGroupName": of_spec[id(template)][1]}
        if id(template) in of_spec:
            spec = one["spec"]
            sizes[of_spec[id(template)]] += int(spec.get("replicas", spec.get("parallelism", 1)))
    for (where, name), size in sorted(sizes.items()):
        least = max(1, dice.pick((1, size // 2, size - 1, size, size, size + 1)))
        policy: Document = {"gang": {"minCount": least}}
        spec = {"schedulingPolicy": {"basic": {}} if dice.chance(0.08) else policy}
        if dice.chance(0.3):
            spec["schedulingConstraints"] = {"topology": [{"key": names.ZONE}]}
        if dice.chance(0.2):
            spec["priority"] = dice.pick((-10, 100, 1000))
        created = f"2026-11-15T09:0{dice.number(0, 9)}:00Z"
        metadata = {"name": name, "namespace": where, "creationTimestamp": created}
        if not dice.chance(0.06):
            kind = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
            yield kind | {"metadata": metadata, "spec": spec}
