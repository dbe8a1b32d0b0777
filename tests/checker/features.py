"""The features of a scenario, so that a test can notice when the generator no longer makes one of them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from checker.generate_catalog import Document
from checker.workloads import GROUP_KEY, JOB_SET_UID, REPLICATED
from holdfast import names

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def of(documents: list[Document]) -> set[str]:
    offered = {
        offering["zone"] for one in documents[0]["spec"]["instanceTypes"] for offering in one["offerings"]
    }
    found = {feature for one in documents for feature in _document(one)}
    return found | {"pool zone without offerings" for one in documents if _zones(one) - offered}


def _zones(document: Document) -> set[str]:
    """The zones that a NodePool requires."""
    if document["kind"] != "NodePool":
        return set()
    wanted = document["spec"]["template"]["spec"]["requirements"]
    return {zone for one in wanted if one["key"] == names.ZONE for zone in one["values"]}


def count(scenarios: list[list[Document]]) -> Counter[str]:
    """In how many of the scenarios each feature is."""
    return Counter(feature for documents in scenarios for feature in of(documents))


def _document(one: Document) -> Iterator[str]:
    kind, spec = one["kind"], one.get("spec") or {}
    yield f"kind {kind}"
    match kind:
        case "Catalog":
            yield from _catalog(spec)
        case "NodePool":
            yield from _pool(spec)
            yield from ("pool being deleted" for _ in [one["metadata"].get("deletionTimestamp")] if _)
            yield from ("pool not Ready" for _ in [one.get("status")] if _)
        case "EC2NodeClass":
            for term in spec.get("capacityReservationSelectorTerms", []):
                yield f"class selects by {' and '.join(sorted(term))}"
        case "NodeClaim":
            yield from ("claim holds a slot" for _ in one["metadata"].get("annotations", {}))
            yield from ("claim being deleted" for _ in [one["metadata"].get("deletionTimestamp")] if _)
        case "PersistentVolumeClaim":
            yield from ("volume claim being deleted" for _ in [one["metadata"].get("deletionTimestamp")] if _)
            yield "volume claim bound" if "volumeName" in spec else "volume claim unbound"
        case "DaemonSet":
            yield from (f"DaemonSet {feature}" for feature in _pod(spec["template"]["spec"]))
        case "Pod":
            where = "running pod" if spec.get("nodeName") else "pod"
            yield from (f"{where} being deleted" for _ in [one["metadata"].get("deletionTimestamp")] if _)
            annotations = one["metadata"].get("annotations", {})
            yield from (f"{where} not to be disrupted" for _ in [annotations.get(names.DO_NOT_DISRUPT)] if _)
            yield from _gang_labels(one["metadata"])
            yield from (f"{where} {feature}" for feature in _pod(spec))
        case "PodGroup":
            yield from ("PodGroup with a topology" for _ in [spec.get("schedulingConstraints")] if _)
            yield f"PodGroup {next(iter(spec['schedulingPolicy']))}"
        case _ if kind in REPLICATED:
            yield from (f"pod {feature}" for feature in _pod(spec["template"]["spec"]))
            annotations = spec["template"].get("metadata", {}).get("annotations", {})
            yield from _gang_labels(spec["template"].get("metadata", {}))
            yield from ("run time by annotation" for _ in [annotations.get(names.MAX_RUN_DURATION)] if _)
            yield from (f"deadline of a {kind}" for _ in [spec.get("activeDeadlineSeconds")] if _)
            yield from ("pod claim template" for _ in spec.get("volumeClaimTemplates", []))


def _catalog(spec: Document) -> Iterator[str]:
    for name, value in spec["settings"].items():
        yield f"setting {name}={value}"
    for one in spec["reservations"]:
        yield f"reservation {one['type']}"
        yield f"reservation {one.get('state', 'active')}"
        if one["available"] == 0:
            yield "reservation full"
        if one.get("end") == "2026-11-15T10:20:00Z" and one["type"] == "capacity-block":
            yield "reservation draining"
        if one.get("interruptible"):
            yield "reservation interruptible"
    for offering in (offering for one in spec["instanceTypes"] for offering in one["offerings"]):
        if "reservation" in offering:
            named = len(offering["reservation"]) == 1
            yield "reservation named in an offering" if named else "reservation as an offering"
        elif "price" not in offering:
            yield "offering without a price"
        if offering.get("available") == 0 or not offering.get("healthy", True):
            yield "offering that cannot be launched"
    yield from ("volume limits of a type" for one in spec["instanceTypes"] if "volumeLimits" in one)


def _gang_labels(metadata: Document) -> Iterator[str]:
    labels = metadata.get("labels") or {}
    yield from ("pod of a JobSet" for _ in [labels.get(JOB_SET_UID)] if _)
    yield from ("pod of a LeaderWorkerSet" for _ in [labels.get(GROUP_KEY)] if _)


def _pool(spec: Document) -> Iterator[str]:
    template = spec["template"]
    yield from ("pool static" for _ in [spec.get("replicas")] if _)
    yield from (f"pool limit {name}" for name in spec.get("limits", {}))
    yield from (f"pool taint {taint['effect']}" for taint in template["spec"].get("taints", []))
    yield from ("pool label" for _ in template["metadata"]["labels"])
    yield from ("pool weight" for _ in [spec.get("weight")] if _)
    for one in template["spec"]["requirements"]:
        yield f"pool requires {one['key']}"
        if "minValues" in one:
            yield "pool minValues"
        if one["key"] == names.CAPACITY_TYPE:
            yield f"pool capacity types {'+'.join(one['values'])}"


def _pod(spec: Document) -> Iterator[str]:
    yield from ("in a PodGroup" for _ in [spec.get("schedulingGroup")] if _)
    for key in ("nodeSelector", "tolerations", "volumes", "initContainers", "schedulingGates", "priority"):
        yield from (key for _ in [spec.get(key)] if _)
    yield from ("pod-level resources" for _ in [spec.get("resources")] if _)
    for key in spec.get("nodeSelector", {}):
        yield f"selects {key}"
    container = spec["containers"][0]
    if container.get("ports"):
        yield "host port"
    if "limits" in container["resources"]:
        yield "GPU"
    yield from _affinity(spec.get("affinity", {}))
    for one in spec.get("topologySpreadConstraints", []):
        yield f"spread {one['whenUnsatisfiable']} {one['topologyKey']}"
        yield from (f"spread {key}" for key in one if key.endswith(("Keys", "Policy")) or key == "minDomains")


def _affinity(affinity: dict[str, Any]) -> Iterator[str]:
    for side, found in affinity.items():
        for one in found.get(_REQUIRED, []) if side != "nodeAffinity" else []:
            yield f"{side} {one['topologyKey']}"
            yield from (f"{side} {key}" for key in one if key.startswith("namespace") or key.endswith("Keys"))
        if _PREFERRED in found:
            yield f"{side} preferred"
            yield from (f"{side} several preferred" for _ in found[_PREFERRED][1:])
    node = affinity.get("nodeAffinity", {}).get(_REQUIRED)
    if node:
        yield f"nodeAffinity alternatives {len(node['nodeSelectorTerms'])}"
        yield from ("matchFields" for one in node["nodeSelectorTerms"] if "matchFields" in one)
