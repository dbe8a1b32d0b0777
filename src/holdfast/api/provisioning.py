"""ProvisioningRequest of autoscaling.x-k8s.io, and core/v1 PodTemplate, which has its pods (PR-1 to PR-8).

Kueue creates both, and starts a workload when the request is Provisioned.
"""

from typing import ClassVar

from holdfast.api.conditions import LenientConditions
from holdfast.api.meta import Object, Wire
from holdfast.api.pods import PodTemplateSpec


class PodTemplateReference(Wire, frozen=True, kw_only=True):
    name: str = ""


class PodSet(Wire, frozen=True, kw_only=True):
    pod_template_ref: PodTemplateReference = PodTemplateReference()
    count: int = 1


class ProvisioningRequestSpec(Wire, frozen=True, kw_only=True):
    pod_sets: tuple[PodSet, ...] = ()
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}


class ProvisioningRequestStatus(Wire, frozen=True, kw_only=True):
    conditions: LenientConditions = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "autoscaling.x-k8s.io/v1"
    kind: ClassVar[str] = "ProvisioningRequest"
    plural: ClassVar[str] = "provisioningrequests"

    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


class PodTemplate(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PodTemplate"
    plural: ClassVar[str] = "podtemplates"

    template: PodTemplateSpec = PodTemplateSpec()
