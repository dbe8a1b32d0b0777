"""Base types of Kubernetes objects: metadata, selectors, and encoding.

Wire types are frozen: an object that was read is never changed, a write is a patch or a new object.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec

from holdfast.api import patterns
from holdfast.api.schema import about

# A quantity as text; `model.quantity` parses it.
Quantity = Annotated[str | int, about("", pattern=patterns.QUANTITY)]
# Built-in kinds also take a bare number such as `cpu: 0.5`.
LooseQuantity = str | int | float
IntOrString = int | str


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """Base of all wire types. Unknown fields are ignored, so that objects of a newer server can be decoded.

    `gc=False`: wire objects have no cycles, and a hundred thousand of them would slow every garbage collection.
    """


class OwnerReference(Wire, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Object(Wire, frozen=True, kw_only=True):
    """A Kubernetes kind. apiVersion and kind belong to the class, not to each instance."""

    api_version: ClassVar[str]
    kind: ClassVar[str]
    plural: ClassVar[str]
    namespaced: ClassVar[bool] = True

    metadata: ObjectMeta = ObjectMeta()


class LabelSelectorRequirement(Wire, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


def to_wire(obj: Object) -> dict[str, Any]:
    """The whole object as plain JSON values, for a create."""
    body = msgspec.to_builtins(obj)
    assert isinstance(body, dict)
    return {"apiVersion": obj.api_version, "kind": obj.kind, **body}
