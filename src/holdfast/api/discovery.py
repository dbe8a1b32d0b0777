"""Documents of the API server that are no objects: groups, OpenAPI schemas, and Deployments as far as `doctor` reads."""

from typing import Any

import msgspec

from holdfast.api.meta import ObjectMeta, Wire


class GroupVersion(Wire, frozen=True):
    version: str


class Group(Wire, frozen=True):
    name: str
    versions: tuple[GroupVersion, ...] = ()


class GroupList(Wire, frozen=True):
    """The response to /apis."""

    groups: tuple[Group, ...] = ()


class Schema(Wire, frozen=True):
    """The part of a schema that Holdfast compares with its own."""

    properties: dict[str, "Schema"] = {}
    items: "Schema | None" = None
    additional_properties: "Schema | bool | None" = None
    enum: tuple[Any, ...] = ()
    preserves_unknown: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")
    kinds: tuple[dict[str, str], ...] = msgspec.field(default=(), name="x-kubernetes-group-version-kind")


class Components(Wire, frozen=True):
    schemas: dict[str, Schema] = {}


class OpenApiDocument(Wire, frozen=True):
    """The response to /openapi/v3/apis/GROUP/VERSION."""

    components: Components = Components()


class Container(Wire, frozen=True):
    image: str = ""


class DeploymentPod(Wire, frozen=True):
    containers: tuple[Container, ...] = ()
    service_account_name: str = "default"


class DeploymentTemplate(Wire, frozen=True):
    spec: DeploymentPod = DeploymentPod()


class DeploymentSpec(Wire, frozen=True):
    replicas: int = 1
    template: DeploymentTemplate = DeploymentTemplate()


class DeploymentStatus(Wire, frozen=True):
    ready_replicas: int = 0


class Deployment(Wire, frozen=True):
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class DeploymentList(Wire, frozen=True):
    items: tuple[Deployment, ...] = ()
