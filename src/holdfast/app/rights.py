"""The rights in Kubernetes that the controllers use: the one table of them.

Called by `doctor.cluster_reading`. `tests/contract/test_rights.py` compares the table with the rules that are installed,
and those with the requests of a run, so no right is missing and none is too many.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.app import optional_kinds
from holdfast.runtime import lease

SYSTEM_NAMESPACE: Final = "kube-system"
DNS_SERVICE: Final = "kube-dns"

Rule = tuple[str, tuple[str, ...], tuple[str, ...]]  # API group, resources, verbs

_READ: Final = ("list", "watch")
_CLUSTER: Final[tuple[Rule, ...]] = (
    ("", ("namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods"), _READ),
    ("apps", ("daemonsets",), _READ),
    ("policy", ("poddisruptionbudgets",), _READ),
    ("storage.k8s.io", ("csinodes", "storageclasses", "volumeattachments"), _READ),
    ("coordination.k8s.io", ("leases",), ("list",)),
    ("karpenter.sh", ("nodeclaims",), ("get", "list", "watch", "create", "patch", "delete")),
    ("karpenter.sh", ("nodepools",), ("get", "list", "watch", "patch")),
    ("karpenter.sh", ("nodeclaims/status", "nodepools/status"), ("patch",)),
    ("", ("nodes",), ("get", "patch", "delete")),
    ("", ("pods",), ("get", "delete")),
    ("", ("pods/eviction",), ("create",)),
    ("", ("events",), ("create", "patch")),
)
_SPREADS: Final = (  # only with a scheduler-config: the owners of pods, and what selects pods
    ("", ("replicationcontrollers", "services"), _READ),
    ("apps", ("deployments", "replicasets", "statefulsets"), _READ),
)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    group: str
    resource: str  # with its subresource: nodes/status
    verb: str
    name: str = ""  # empty: any name
    namespace: str = ""  # empty: all namespaces, or none


def needed(
    *,
    lease_namespace: str | None = SYSTEM_NAMESPACE,
    lease_name: str = lease.NAME,
    node_class: type[Object] = EC2NodeClass,
    has_spreads: bool = True,
    kinds: Collection[type[Object]] = optional_kinds.KINDS,
    reads_dns: bool = True,
) -> tuple[Right, ...]:
    """The rights of a run with these settings. `lease_namespace` None: without leader election. `kinds`: of the optional
    ones, those that the API server serves."""
    optional = (*(_SPREADS if has_spreads else ()), *(rule for kind in kinds for rule in _rules(kind)))
    found = _needed(lease_namespace, lease_name, optional, reads_dns=reads_dns)
    return tuple(sorted((*found, *_of_class(node_class))))


def _rules(kind: type[Object]) -> Iterator[Rule]:
    group = kind.api_version.partition("/")[0]
    yield group, (kind.plural,), _READ
    if kind is ProvisioningRequest:
        yield group, (kind.plural,), ("get",)
        yield group, (f"{kind.plural}/status",), ("patch",)
        yield "", (PodTemplate.plural,), _READ


def _of_class(kind: type[Object]) -> Iterator[Right]:
    group = kind.api_version.partition("/")[0]
    for verb in ("get", "list", "watch", "patch"):
        yield Right(group, kind.plural, verb)
    yield Right(group, f"{kind.plural}/status", "patch")


def _needed(
    lease_namespace: str | None, lease_name: str, optional: Iterable[Rule], *, reads_dns: bool
) -> Iterator[Right]:
    for group, resources, verbs in (*_CLUSTER, *optional):
        for resource in resources:
            for verb in verbs:
                yield Right(group, resource, verb)
    if lease_namespace is not None:
        group, resource = "coordination.k8s.io", "leases"
        yield Right(group, resource, "create", namespace=lease_namespace)
        for verb in ("get", "patch"):
            yield Right(group, resource, verb, lease_name, lease_namespace)
    if reads_dns:
        yield Right("", "services", "get", DNS_SERVICE, SYSTEM_NAMESPACE)
