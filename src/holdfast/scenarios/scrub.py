"""Replaces the names in a scenario by pseudonyms, for `holdfast snapshot --scrub`.

The plan stays the same up to the names. A name has one pseudonym everywhere, and pseudonyms sort as the names do,
because the planner breaks ties by name. Label keys, label values and resource names that Kubernetes, Karpenter or AWS
define are kept; so are zones, instance types, prices, amounts and times.

It works on the documents that `snapshot_documents` writes, field by field. A text in a field that it does not know is
removed, so a field that is added later cannot leak a name.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from holdfast import names
from holdfast.scenarios.catalog import CloudTerms
from holdfast.state.conversion import volumes

Json = dict[str, Any]
Change = Callable[[Any], Any]

_KEPT_DOMAINS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "holdfast.dev", "amazonaws.com")
_KEPT_RESOURCES: Final = (
    *_KEPT_DOMAINS,
    "nvidia.com",
    "amd.com",
    "habana.ai",
    "aws.amazon.com",
    "intel.com",
)
_KEPT_DRIVERS: Final = frozenset(
    {
        *volumes.DRIVERS,
        *volumes.DRIVERS.values(),
        volumes.NO_PROVISIONER,
        "efs.csi.aws.com",
        "fsx.csi.aws.com",
    }
)
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_NODE_NAME_FIELD: Final = "metadata.name"  # a field of a node, in matchFields
_PLAIN: Final = re.compile(r"[0-9]{1,6}|true|false")  # values that name nothing
_ACCOUNT: Final = "account"
_WIDTH_MIN: Final = 2


def scrubbed(documents: Iterable[Json], terms: CloudTerms) -> list[Json]:
    """The documents with pseudonyms."""
    documents = list(documents)
    collecting = _RankedPseudonyms()
    for one in documents:
        _Scrub(collecting, terms).document(one)
    collecting.assign()
    return [_Scrub(collecting, terms).document(one) for one in documents]


class Pseudonyms(Protocol):
    def of(self, category: str, name: str) -> str:
        """The pseudonym of a name: the same at every call. Names of several categories may be equal."""


def scrubber(
    pseudonyms: Pseudonyms, terms: CloudTerms, *, kept_labels: AbstractSet[str] = frozenset()
) -> Callable[[Json], Json]:
    """A function that scrubs one document at a time. `kept_labels`: further keys that are kept, with their values."""
    return _Scrub(pseudonyms, terms, kept_labels).document


class _RankedPseudonyms:
    """Collects names by category; after `assign`, each has a pseudonym of the same rank."""

    def __init__(self) -> None:
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._assigned: dict[tuple[str, str], str] | None = None

    def of(self, category: str, name: str) -> str:
        if not name:
            return name
        if self._assigned is None:
            self._names[category].add(name)
            return name
        return self._assigned[category, name]

    def assign(self) -> None:
        self._assigned = {}
        for category, found in self._names.items():
            # The planner sorts pods by namespace/name.
            ordered = sorted(found, key=lambda one: f"{one}/") if category == "ns" else sorted(found)
            width = max(_WIDTH_MIN, len(str(len(ordered))))
            for rank, name in enumerate(ordered, start=1):
                short = f"{category}-{rank:0{width}}"
                self._assigned[category, name] = f"{rank:012}" if category == _ACCOUNT else short


class _Scrub:
    def __init__(
        self, pseudonyms: Pseudonyms, terms: CloudTerms, kept_labels: AbstractSet[str] = frozenset()
    ) -> None:
        self._of = pseudonyms.of
        self._terms = terms
        named: Mapping[str, Change] = {
            names.NODEPOOL: self.pool,
            names.HOSTNAME: self.node,
            _NODE_NAME_FIELD: self.node,
            _NAMESPACE_NAME: self.namespace,
            **{f"{group}/{kind.lower()}": self.node_class for group, kind in terms.node_classes},
            **({terms.labels.reservation_id: self.reservation} if terms.labels.reservation_id else {}),
        }
        self._named_by_label = {key: change for key, change in named.items() if key not in kept_labels}
        self._kept_labels = kept_labels | frozenset(
            {*terms.labels.well_known, *terms.key_aliases, *names.LABEL_ALIASES, names.REGISTERED, names.INITIALIZED}
        )  # fmt: skip
        self._fields = self._changes()

    # --- Names --------------------------------------------------------------------------------------------

    def pool(self, name: str) -> str:
        return self._of("pool", name)

    def node(self, name: str) -> str:
        """Of a Node or a NodeClaim: a NodeClaim without a Node stands for the node in a plan."""
        return self._of("node", name)

    def namespace(self, name: str) -> str:
        return self._of("ns", name)

    def node_class(self, name: str) -> str:
        return self._of("class", name)

    def reservation(self, name: str) -> str:
        return self._of("cr", name)

    def object_name(self, name: str) -> str:
        return self._of("name", name)

    def volume_claim(self, name: str) -> str:
        return self._of("pvc", name)

    def uid(self, uid: str) -> str:
        return self._of("uid", uid)

    def provider_id(self, provider_id: str) -> str:
        head, slash, instance = provider_id.rpartition("/")
        return f"{head}{slash}{self._of('i', instance)}"

    def account(self, account: str) -> str:
        return self._of(_ACCOUNT, account)

    def driver(self, name: str) -> str:
        return name if name in _KEPT_DRIVERS else self._of("driver", name)

    def key(self, key: str) -> str:
        """A label or taint key."""
        domain = key.partition("/")[0]
        is_kept = key in self._kept_labels or ("/" in key and _is_in(domain, _KEPT_RESOURCES))
        return key if is_kept or key == _NODE_NAME_FIELD else self._of("key", key)

    def resource(self, name: str) -> str:
        domain, slash, _ = name.partition("/")
        return name if not slash or _is_in(domain, _KEPT_RESOURCES) else self._of("resource", name)

    def value(self, key: str, value: Any) -> Any:
        """The value of a label or taint, or several possible values."""
        if isinstance(value, list):
            return [self.value(key, one) for one in value]
        named = self._named_by_label.get(key)
        if named is not None:
            return named(value)
        if key in self._kept_labels or _PLAIN.fullmatch(value):
            return value
        return self._of("value", value)

    # --- Fields -------------------------------------------------------------------------------------------

    def _changes(self) -> Mapping[str, Change]:
        """What is done with the value of a field, by the name of the field."""
        amounts: dict[str, Change] = dict.fromkeys(
            ("requests", "limits", "capacity", "allocatable", "allocatedResources", "overhead"), self._amounts
        )
        labels: dict[str, Change] = dict.fromkeys(("labels", "matchLabels", "nodeSelector"), self._labels)
        keys: dict[str, Change] = dict.fromkeys(
            ("matchLabelKeys", "mismatchLabelKeys", "topologyKeys"),
            lambda found: [self.key(k) for k in found],
        )
        lists: dict[str, Change] = dict.fromkeys(("taints", "startupTaints", "tolerations"), self._taints)
        return {
            **amounts,
            **labels,
            **keys,
            **lists,
            "annotations": self._annotations,
            "topologyKey": self.key,
            "namespaces": lambda found: [self.namespace(one) for one in found],
            "nodeName": self.node,
            "nominatedNodeName": self.node,
            "claimName": self.volume_claim,
            "volumeName": self.object_name,
            "storageClassName": self.object_name,
            "podGroupName": self.object_name,
            "topology": lambda found: [one | {"key": self.key(one["key"])} for one in found],
            "providerID": self.provider_id,
            "nodeClassRef": lambda ref: ref | {"name": self.node_class(ref["name"])},
            "nodeClasses": lambda found: [self.node_class(one) for one in found],
            "reservationID": self.reservation,
            "reservation": lambda found: {"id": self.reservation(found["id"])},
            "ownerID": self.account,
            "provisioner": self.driver,
            "driver": self.driver,
            "volumeLimits": lambda found: {self.driver(one): count for one, count in found.items()},
            "tags": lambda _: {},
            "message": lambda _: "",
        }

    def document(self, written: Json) -> Json:
        kind = written["kind"]
        named: Mapping[str, Change] = {
            "NodePool": self.pool,
            "Node": self.node,
            "NodeClaim": self.node,
            "CSINode": self.node,
            "Namespace": self.namespace,
            "PersistentVolumeClaim": self.volume_claim,
            "Pod": lambda name: self._of("pod", name),
            "Catalog": lambda name: name,
        }
        changed = self._parts({key: value for key, value in written.items() if key != "metadata"})
        meta = self._metadata(written["metadata"], named.get(kind, self.object_name))
        if kind in ("Service", "ReplicationController"):
            changed["spec"] = {"selector": self._labels(written["spec"].get("selector", {}))}
        if kind == "CSINode":
            changed["spec"]["drivers"] = [self._csi_driver(one) for one in written["spec"].get("drivers", ())]
        if kind == "Catalog":
            changed["spec"] = self._catalog(written["spec"])
        return changed | {"metadata": meta}

    def _metadata(self, written: Json, name: Change) -> Json:
        changed = self._parts(written)
        changed["name"] = name(written["name"])
        if "namespace" in written:
            changed["namespace"] = self.namespace(written["namespace"])
        if "uid" in written:
            changed["uid"] = self.uid(written["uid"])
        if "ownerReferences" in written:
            changed["ownerReferences"] = [
                one | {"name": self.object_name(one["name"]), "uid": self.uid(one["uid"])}
                for one in written["ownerReferences"]
            ]
        return changed

    def _any(self, value: Any, field: str) -> Any:
        """The value of a field; its parts are changed by their own names. None: an unknown text, which is removed."""
        change = self._fields.get(field)
        if change is not None:
            return change(value)
        if isinstance(value, list):
            return [self._any(one, field) for one in value]
        if isinstance(value, str):
            return value if field in _KEPT_TEXTS else None
        if not isinstance(value, dict):
            assert value is None or isinstance(value, int | float), "documents have plain JSON values"
            return value
        if "key" in value:  # an expression
            values = {"values": self.value(value["key"], value["values"])} if "values" in value else {}
            return value | {"key": self.key(value["key"])} | values
        changed = self._parts(value)
        if "name" in value and field in _NAMED_PARTS:
            changed["name"] = self.object_name(value["name"])
        elif "name" in value and field == "instanceTypes":
            changed["name"] = value["name"]
        return changed

    def _parts(self, value: Json) -> Json:
        parts = {key: self._any(one, key) for key, one in value.items()}
        return {key: one for key, one in parts.items() if one is not None}

    def _catalog(self, spec: Json) -> Json:
        """The ids of reservations are not in a field of their own name."""
        listed = [one | {"reservationID": one["id"]} for one in spec.get("reservations", ())]
        changed = self._parts(spec | {"reservations": listed})
        for one in changed["reservations"]:
            one["id"] = one.pop("reservationID")
        return changed

    def _labels(self, found: Json) -> Json:
        return {self.key(key): self.value(key, value) for key, value in found.items()}

    def _amounts(self, found: Any) -> Any:
        """By resource; `resources` of a container has parts."""
        return {self.resource(name): amount for name, amount in found.items()}

    def _taints(self, found: list[Json]) -> list[Json]:
        return [
            one
            | {key: self.key(one[key]) for key in ("key",) if one.get(key)}
            | {key: self.value(one.get("key", ""), one[key]) for key in ("value",) if one.get(key)}
            for one in found
        ]

    def _annotations(self, found: Json) -> Json:
        special: Mapping[str, Change] = {
            names.RESERVATION_ID: self.reservation,
            names.RESERVATION_ID_BEFORE_0_2: self.reservation,
            names.WAITS_FOR_INSTANCE: self.provider_id,
            names.HELD_FOR: lambda uids: " ".join(self.uid(one) for one in uids.split()),
        }
        return {key: special.get(key, lambda value: value)(value) for key, value in found.items()}

    def _csi_driver(self, written: Json) -> Json:
        return written | {"name": self.driver(written["name"])}


# Fields with texts that name nothing of the user's.
_KEPT_TEXTS: Final = frozenset({
    "apiVersion", "kind", "group", "operator", "effect", "type", "status", "reason", "phase", "protocol", "hostIP",
    "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy", "unhealthyPodEvictionPolicy", "minAvailable",
    "maxUnavailable", "volumeBindingMode", "restartPolicy", "creationTimestamp", "deletionTimestamp", "startTime",
    "lastTransitionTime", "lastPodEventTime", "consolidateAfter", "consolidationPolicy", "nodes", "reasons", "schedule",
    "duration", "expireAfter", "terminationGracePeriod", "now", "countsRead", "read", "launched", "start", "end", "state",
    "tenancy", "drainLead", "reclaimLead", "instanceType", "zone", "zoneID", "capacityType", "price", "surcharge",
    "available", "packing", "nodeCost", "reservedMode", "reservationWait", "preferencePolicy", "minValuesPolicy",
    "ledgerLag", "startEstimate", "gangHold", "gangsOf",
})  # fmt: skip
_NAMED_PARTS: Final = frozenset(
    {"containers", "initContainers", "containerStatuses", "initContainerStatuses", "volumes", "resourceClaims", "schedulingGates"}
)  # fmt: skip


def _is_in(domain: str, domains: Iterable[str]) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in domains)
