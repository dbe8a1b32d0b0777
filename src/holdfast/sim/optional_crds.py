"""CustomResourceDefinitions of kinds that Holdfast reads if the API server serves them, for the embedded API server.

They have the names and versions of the real definitions, and accept any spec and status.
"""

from collections.abc import Mapping
from typing import Any, Final

_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_APPROVED: Final = "api-approved.kubernetes.io"


def definition(
    kind: str, group: str, version: str, annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A namespaced kind with a status subresource."""
    singular = kind.lower()
    properties = {"spec": _ANYTHING, "status": _ANYTHING}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}", "annotations": dict(annotations or {})},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": f"{singular}s",
                "singular": singular,
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


PROVISIONING_REQUESTS: Final = definition(
    "ProvisioningRequest",
    "autoscaling.x-k8s.io",
    "v1",
    {_APPROVED: "https://github.com/kubernetes/autoscaler/pull/5848"},
)
POD_GROUPS: Final = definition(
    "PodGroup",
    "scheduling.k8s.io",
    "v1alpha2",
    {_APPROVED: "unapproved, in place of the built-in alpha API"},
)
