"""The shapes of pods, with pseudonyms instead of names: only fields that decide where and for how long a pod runs.

The fields are listed here. A field that is not listed (images, environments, commands, volumes) is never written.
"""

import base64
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from holdfast import names
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.pods import Pod
from holdfast.api.recording import JOB, Budget, Shape
from holdfast.scenarios import scrub, snapshot_documents
from holdfast.scenarios.catalog import CloudTerms

Json = dict[str, Any]

_SHAPES_MAX: Final = 20_000  # a shape that was not used for long is written again
_PSEUDONYM_BYTES: Final = 6
_KEY: Final = "key"  # categories of `scrub`
_VALUE: Final = "value"
_RESOURCE: Final = "resource"
_RESOURCE_DOMAIN: Final = "scrubbed.holdfast.dev"  # the API server accepts no other resource without a domain
TEMPLATE_HASHES: Final = ("pod-template-hash", "rollouts-pod-template-hash")
_REVISION_LABELS: Final = (*TEMPLATE_HASHES, "controller-revision-hash")
_KEPT_KEYS: Final = (
    *_REVISION_LABELS,
    "job-name",
)  # of Kubernetes, without a domain; selectors may have them
_APP_LABELS: Final = ("app", "k8s-app", "name", "app.kubernetes.io/name", "app.kubernetes.io/instance")
# Controllers write these labels on each pod, with a value for each pod, Job or revision. The API server copies zone and
# region from the node when the pod is bound.
_GENERATED_LABELS: Final = frozenset(
    {
        *_REVISION_LABELS,
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        names.ZONE,
        names.REGION,
    }
)
_SPEC_FIELDS: Final = (
    "resources",
    "overhead",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "hostNetwork",
)
# Annotations may have any text as value; others than these have no effect.
_ANNOTATION_VALUE: Final = re.compile(r"true|[+-]?[0-9]{1,10}|([0-9]{1,10}[smh]){1,3}")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms"
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_GRACE_S: Final = 30  # the default of the API server
_ADDED_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_ADDED_TOLERATION_S: Final = 300


class HashedPseudonyms:
    """Pseudonyms without a table: a recording of months needs no more memory than one of an hour. The secret is never
    written, so a name cannot be found by trying names."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def of(self, category: str, name: str) -> str:
        if not name or (category == _KEY and name in _KEPT_KEYS):
            return name
        text = f"{category}/{name}".encode(errors="surrogatepass")
        digest = hmac.digest(self._secret, text, hashlib.sha256)[:_PSEUDONYM_BYTES]
        pseudonym = f"{category}-{base64.b32encode(digest).decode().rstrip('=').lower()}"
        return f"{_RESOURCE_DOMAIN}/{pseudonym}" if category == _RESOURCE else pseudonym


class Shapes:
    """Gives equal shapes one id."""

    def __init__(
        self, secret: str, terms: CloudTerms, *, kept_labels: AbstractSet[str] = frozenset()
    ) -> None:
        self._pseudonyms = HashedPseudonyms(secret)
        self._scrub: Callable[[Json], Json] = scrub.scrubber(self._pseudonyms, terms, kept_labels=kept_labels)
        self._app_keys = {*_APP_LABELS, *(self._pseudonyms.of(_KEY, key) for key in _APP_LABELS)}
        self._ids: OrderedDict[bytes, int] = OrderedDict()  # by digest; the last used is the last
        self._count = 0

    def of(self, pod: Pod, *, job_name: str = "") -> tuple[int, Shape | None]:
        """The id of the pod's shape, and the line to write if it is new."""
        shape = self._shape(pod, job_name)
        digest = hashlib.blake2b(msgspec.json.encode(shape, order="deterministic"), digest_size=16).digest()
        known = self._ids.get(digest)
        if known is not None:
            self._ids.move_to_end(digest)
            return known, None
        self._count += 1
        self._ids[digest] = self._count
        if len(self._ids) > _SHAPES_MAX:
            self._ids.popitem(last=False)
        return self._count, msgspec.structs.replace(shape, id=self._count)

    def budget(self, budget: PodDisruptionBudget, number: int) -> Budget:
        written = self._scrub(
            {
                "kind": budget.kind,
                "metadata": {"name": budget.metadata.name, "namespace": budget.metadata.namespace},
                "spec": msgspec.to_builtins(budget.spec),
            }
        )
        return Budget(id=number, ns=written["metadata"]["namespace"], spec=written["spec"])

    def _shape(self, pod: Pod, job_name: str) -> Shape:
        meta = pod.metadata
        labels = {key: value for key, value in meta.labels.items() if is_kept_label(key, value, meta.name)}
        annotations = {
            key: value
            for key, value in meta.annotations.items()
            if key in snapshot_documents.ANNOTATIONS[Pod] and _ANNOTATION_VALUE.fullmatch(value)
        }
        written = self._scrub(
            {
                "kind": pod.kind,
                "metadata": {
                    "name": "",
                    "namespace": meta.namespace,
                    "labels": labels,
                    "annotations": annotations,
                },
                "spec": pod_spec(pod),
            }
        )
        if job_name:
            written = self._with_job(written, self._pseudonyms.of(_VALUE, job_name))
        return Shape(
            id=0,
            ns=written["metadata"]["namespace"],
            labels=written["metadata"]["labels"],
            annotations=written["metadata"]["annotations"],
            spec=written["spec"],
            volumes=sum(bool(one.persistent_volume_claim or one.ephemeral) for one in pod.spec.volumes),
        )

    def _with_job(self, value: Any, name: str) -> Any:
        """JOB instead of the name of the Job, which would make a new shape for each Job. Not as the name of an app, which
        pods of others may select."""
        if isinstance(value, list):
            return [self._with_job(one, name) for one in value]
        if not isinstance(value, dict):
            return value
        if "key" in value and "values" in value:
            is_app = value["key"] in self._app_keys
            return (
                value
                if is_app
                else value | {"values": [JOB if one == name else one for one in value["values"]]}
            )
        return {
            key: JOB if one == name and key not in self._app_keys else self._with_job(one, name)
            for key, one in value.items()
        }


def is_kept_label(key: str, value: str, pod: str) -> bool:
    """Whether the label is of the pod's template, not of this pod or revision."""
    return key not in _GENERATED_LABELS and value != pod


def pod_spec(pod: Pod) -> Json:
    """The fields of a pod that decide where it may run, without its node."""
    whole: Json = msgspec.json.decode(msgspec.json.encode(pod.spec))
    spec: Json = {key: whole[key] for key in _SPEC_FIELDS if key in whole}
    for key in ("containers", "initContainers"):
        if key in whole:
            spec[key] = [_container(one) for one in whole[key]]
    _leave_out_nodes(spec)
    _leave_out_merged_keys(spec)
    tolerations = [one for one in spec.pop("tolerations", ()) if not _is_added(one)]
    if tolerations:
        spec["tolerations"] = tolerations
    priority = pod.spec.priority or _PRIORITIES.get(pod.spec.priority_class_name, 0)
    if priority:
        spec["priority"] = priority
    grace_s = pod.spec.termination_grace_period_seconds
    if grace_s is not None and grace_s != _GRACE_S:
        spec["terminationGracePeriodSeconds"] = grace_s
    return spec


def _leave_out_nodes(spec: Json) -> None:
    """Removes requirements on single nodes, which do not exist on replay."""
    selector: Json = spec.get("nodeSelector", {})
    selector.pop(names.HOSTNAME, None)
    required: Json = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {})
    for term in required.get(_TERMS, ()):
        term.pop("matchFields", None)
        kept = [one for one in term.get("matchExpressions", ()) if one["key"] != names.HOSTNAME]
        term["matchExpressions"] = kept
    if not all(term["matchExpressions"] for term in required.get(_TERMS, ())):
        del spec["affinity"]["nodeAffinity"][
            _REQUIRED
        ]  # the terms are ORed, and one of them allows every node


def _leave_out_merged_keys(value: Any) -> None:
    """The API server adds `matchLabelKeys` to the selector of a pod, with the values of this pod. It does so again on
    replay, with the values of that pod."""
    if isinstance(value, list):
        for one in value:
            _leave_out_merged_keys(one)
    elif isinstance(value, dict):
        keys = {*value.get("matchLabelKeys", ()), *value.get("mismatchLabelKeys", ())}
        selector = value.get("labelSelector") or {}
        if keys and "matchExpressions" in selector:
            kept = [one for one in selector["matchExpressions"] if one["key"] not in keys]
            selector["matchExpressions"] = kept
        for one in value.values():
            _leave_out_merged_keys(one)


def _container(written: Json) -> Json:
    container: Json = {key: written[key] for key in ("resources", "restartPolicy") if key in written}
    ports = [one for one in written.get("ports", ()) if one.get("hostPort")]
    return container | ({"ports": ports} if ports else {})


def _is_added(toleration: Mapping[str, Any]) -> bool:
    """Whether the API server added the toleration; it does so again on replay."""
    return (
        toleration.get("key") in _ADDED_TOLERATIONS
        and toleration.get("operator") == "Exists"
        and toleration.get("tolerationSeconds") == _ADDED_TOLERATION_S
    )
