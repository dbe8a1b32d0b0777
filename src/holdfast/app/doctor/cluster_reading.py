"""Reads from the API server what the checks need. A read that fails is a value of the reading.

Called by `diagnosis`. Schemas come from the OpenAPI documents and not from the CustomResourceDefinitions: every
authenticated user may read those, also the ServiceAccount of Holdfast, which may not read the definitions. The clock is
read with an Event that is created with `dryRun=All`, so nothing is stored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from holdfast import errors
from holdfast.api import discovery
from holdfast.api.answers import Unreadable
from holdfast.api.cluster import Lease
from holdfast.api.discovery import CustomResourceDefinition, Deployment, Schema
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.reviews import (
    AccessReviewSpec,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SubjectAccessReview,
)
from holdfast.app import karpenter as karpenter_signs
from holdfast.app.rights import Right
from holdfast.kube.client import Client
from holdfast.kube.server_time import ServerTime
from holdfast.model.check_results import Read
from holdfast.ports import Clock
from holdfast.runtime.clock import ProgramClock
from holdfast.runtime.reads import value_or_error

SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LISTED_MAX: Final = "50"

K = TypeVar("K", bound=Object)


@dataclass(frozen=True, slots=True)
class DeploymentView:
    namespace: str
    name: str
    replicas: int
    ready: int
    image: str  # of the first container
    service_account: str  # system:serviceaccount:NAMESPACE:NAME


@dataclass(frozen=True, slots=True)
class KindReading:
    """What the API server serves of one kind."""

    versions: Read[tuple[str, ...]]  # of the group; empty: there is no such group
    schema: Read[Schema | None] = None  # of the version that Holdfast needs; None: not served
    definition: Read[CustomResourceDefinition | None] = None  # None: it does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    server: str
    version: Read[str]
    now_s: int = 0  # by the API server's clock, if that was read
    ahead_s: int | None = None  # of the API server's clock; None: not read
    kinds: Mapping[type[Object], KindReading] = field(default_factory=dict)  # those that Holdfast needs
    subject: str = ""  # the user whose rights were read
    rights: Mapping[Right, Read[bool]] = field(default_factory=dict)
    karpenter_leases: Read[Sequence[Lease]] = ()
    karpenter: Read[Sequence[DeploymentView]] = ()
    holdfast: Read[Sequence[DeploymentView]] = ()
    node_pools: Read[Sequence[NodePool | Unreadable]] = ()
    node_classes: Read[Sequence[EC2NodeClass | Unreadable]] = ()


async def read(
    kube: Client,
    *,
    server: str,
    clock: Clock,
    rights: Sequence[Right],
    node_class: type[EC2NodeClass] = EC2NodeClass,
    service_account: str = "",
) -> ClusterReading:
    """`node_class`: the kind of our classes. `service_account` is NAMESPACE/NAME: whose rights to read. Empty: of the caller if that is a ServiceAccount, else of
    the Deployment of Holdfast, else of the caller."""
    version = await value_or_error(kube.version())
    if isinstance(version, errors.HoldfastError):
        return ClusterReading(server=server, version=version)
    program_clock = ProgramClock(clock)
    await ServerTime(kube, program_clock).read()
    holdfast = await value_or_error(_deployments(kube, {"labelSelector": "app.kubernetes.io/name=holdfast"}))
    caller = await value_or_error(kube.review(SelfSubjectReview()))
    own = "" if isinstance(caller, errors.HoldfastError) else caller.status.user_info.username
    subject = _subject(own, service_account, holdfast)
    needed = (NodePool, NodeClaim, node_class)
    pools, classes, leases, karpenter, served, reviewed = await asyncio.gather(
        value_or_error(_all(kube, NodePool)),
        value_or_error(_all(kube, node_class)),
        value_or_error(karpenter_signs.leases(kube)),
        value_or_error(_deployments(kube, {"fieldSelector": "metadata.name=karpenter"})),
        asyncio.gather(*(_kind(kube, kind) for kind in needed)),
        asyncio.gather(*(value_or_error(_is_allowed(kube, one, own, subject)) for one in rights)),
    )
    return ClusterReading(
        server=server,
        version=version,
        now_s=program_clock.now_s(),
        ahead_s=program_clock.api_server.adopted_s,
        kinds=dict(zip(needed, served, strict=True)),
        subject=subject,
        rights=dict(zip(rights, reviewed, strict=True)),
        karpenter_leases=leases,
        karpenter=karpenter,
        holdfast=holdfast,
        node_pools=pools,
        node_classes=classes,
    )


async def _all(kube: Client, kind: type[K]) -> Sequence[K | Unreadable]:
    return [one async for page in kube.pages(kind) for one in page.items]


def _subject(own: str, service_account: str, holdfast: Read[Sequence[DeploymentView]]) -> str:
    if service_account:
        namespace, _, name = service_account.partition("/")
        return f"{SERVICE_ACCOUNT}{namespace}:{name}"
    if own.startswith(SERVICE_ACCOUNT) or isinstance(holdfast, errors.HoldfastError) or not holdfast:
        return own
    return holdfast[0].service_account


async def _is_allowed(kube: Client, right: Right, own: str, subject: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = ResourceAttributes(
        group=right.group,
        resource=resource,
        subresource=subresource,
        verb=right.verb,
        namespace=right.namespace,
        name=right.name,
    )
    if subject == own:
        review = SelfSubjectAccessReview(spec=AccessReviewSpec(resource_attributes=attributes))
        return (await kube.review(review)).status.allowed
    namespace = subject.split(":")[2]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    spec = AccessReviewSpec(resource_attributes=attributes, user=subject, groups=groups)
    return (await kube.review(SubjectAccessReview(spec=spec))).status.allowed


# --- Kinds and Deployments ----------------------------------------------------------------------------


async def _kind(kube: Client, kind: type[Object]) -> KindReading:
    group, _, version = kind.api_version.partition("/")
    versions = await value_or_error(_versions(kube, group))
    if isinstance(versions, errors.HoldfastError):
        return KindReading(versions)
    definition = await value_or_error(_definition(kube, f"{kind.plural}.{group}"))
    if version not in versions:
        return KindReading(versions, definition=definition)
    schema = await value_or_error(_schema(kube, group, version, kind.kind))
    return KindReading(versions, schema, definition)


async def _versions(kube: Client, group: str) -> tuple[str, ...]:
    """From the list of all groups: for a group that is not served, the API server has no response that tells it from one
    of a proxy."""
    listed = (await kube.document("/apis", discovery.GroupList)).groups
    return tuple(one.version for found in listed if found.name == group for one in found.versions)


async def _schema(kube: Client, group: str, version: str, kind: str) -> Schema | None:
    document = await kube.document(f"/openapi/v3/apis/{group}/{version}", discovery.OpenApiDocument)
    wanted = {"group": group, "version": version, "kind": kind}
    return next((one for one in document.components.schemas.values() if wanted in one.kinds), None)


async def _definition(kube: Client, name: str) -> CustomResourceDefinition | None:
    try:
        return await kube.document(f"{_DEFINITIONS}/{name}", CustomResourceDefinition)
    except errors.NotFound:
        return None


async def _deployments(kube: Client, query: Mapping[str, str]) -> tuple[DeploymentView, ...]:
    limited = {**query, "limit": _LISTED_MAX}
    return tuple(map(_view, (await kube.document(_DEPLOYMENTS, discovery.DeploymentList, limited)).items))


def _view(found: Deployment) -> DeploymentView:
    pod, namespace = found.spec.template.spec, found.metadata.namespace
    return DeploymentView(
        namespace=namespace,
        name=found.metadata.name,
        replicas=found.spec.replicas,
        ready=found.status.ready_replicas,
        image=pod.containers[0].image if pod.containers else "",
        service_account=f"{SERVICE_ACCOUNT}{namespace}:{pod.service_account_name}",
    )
