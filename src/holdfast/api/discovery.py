"""What `doctor` reads of the API server: groups, OpenAPI schemas, CustomResourceDefinitions, Deployments."""

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


class DefinitionVersion(Wire, frozen=True):
    name: str
    storage: bool = False  # objects are stored in this version


class DefinitionSpec(Wire, frozen=True):
    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionStatus(Wire, frozen=True):
    stored_versions: tuple[str, ...] = ()  # objects may be stored in any of them


class CustomResourceDefinition(Wire, frozen=True):
    """The part that the OpenAPI documents do not have."""

    metadata: ObjectMeta
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


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
