"""Validates objects before they are stored: names, labels, and the simplest rules of built-in kinds.

Called by `registry`. A real server has several hundred more rules. These are the ones that programs encounter, and the
ones that the simulated cluster depends on.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from holdfast.api import patterns
from holdfast.api.metadata import is_label_value
from holdfast.sim.api.schema.defaults import TEMPLATES
from holdfast.sim.api.schema.status import Cause
from holdfast.sim.api.storage import selectors

Json = dict[str, Any]

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL: Final = re.compile(_LABEL)
_SEGMENT: Final = re.compile(r"(?!\.\.?$)[^/%]+")
_KEY: Final = re.compile(patterns.QUALIFIED_NAME)
_MAX_NAME: Final = 253
_MAX_LABEL: Final = 63
_MAX_SHOWN: Final = 1000
_MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
_LABEL_NAMED: Final = frozenset({"/namespaces", "/services"})
_NAME_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_POD_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
# Required fields by bucket.
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "/pods": ("spec.containers",),
    "/services": ("spec.ports",),
    "apps/deployments": ("spec.selector", "spec.template.spec.containers"),
    "apps/replicasets": ("spec.selector", "spec.template.spec.containers"),
    "apps/statefulsets": ("spec.selector", "spec.template.spec.containers"),
    "apps/daemonsets": ("spec.selector", "spec.template.spec.containers"),
    "batch/jobs": ("spec.template.spec.containers",),
    "batch/cronjobs": ("spec.schedule", "spec.jobTemplate.spec.template.spec.containers"),
    "/events": ("involvedObject",),
    "/persistentvolumeclaims": ("spec.accessModes", "spec.resources.requests.storage"),
    "storage.k8s.io/storageclasses": ("provisioner",),
    "storage.k8s.io/volumeattachments": ("spec.attacher", "spec.nodeName", "spec.source"),
    "rbac.authorization.k8s.io/rolebindings": ("roleRef.name",),
    "rbac.authorization.k8s.io/clusterrolebindings": ("roleRef.name",),
    "apiextensions.k8s.io/customresourcedefinitions": (
        "spec.group",
        "spec.scope",
        "spec.names.kind",
        "spec.names.plural",
        "spec.versions",
    ),
}
_IMMUTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "apps/deployments": ("spec.selector",),
    "apps/replicasets": ("spec.selector",),
    "apps/daemonsets": ("spec.selector",),
    "batch/jobs": ("spec.selector", "spec.completionMode"),
    "storage.k8s.io/storageclasses": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "scheduling.k8s.io/priorityclasses": ("value", "preemptionPolicy"),
    "rbac.authorization.k8s.io/rolebindings": ("roleRef",),
    "rbac.authorization.k8s.io/clusterrolebindings": ("roleRef",),
}
# In the pod template of a suspended Job, these may change.
_SCHEDULING: Final = frozenset({"nodeSelector", "schedulingGates", "tolerations"})


def of_metadata(bucket: str, metadata: Json) -> Iterator[Cause]:
    """The problems in the metadata of any object."""
    yield from _name(bucket, metadata)
    for key, value in (metadata.get("labels") or {}).items():
        yield from _label(key, value, "metadata.labels")
    for key in metadata.get("annotations") or ():
        if not _is_key(key.lower()):
            yield Cause("FieldValueInvalid", "metadata.annotations", f'"{key[:100]}": {_KEY_WORDS}')
    size = sum(len(key) + len(value) for key, value in (metadata.get("annotations") or {}).items())
    if size > _MAX_ANNOTATIONS_BYTES:
        yield Cause(
            "FieldValueTooLong",
            "metadata.annotations",
            f"may not be more than {_MAX_ANNOTATIONS_BYTES} bytes",
        )
    for n, finalizer in enumerate(metadata.get("finalizers") or ()):
        if not _is_key(finalizer):
            yield Cause(
                "FieldValueInvalid", f"metadata.finalizers[{n}]", f'"{finalizer[:100]}": {_KEY_WORDS}'
            )
    for n, reference in enumerate(metadata.get("ownerReferences") or ()):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(name):
                yield Cause(
                    "FieldValueInvalid", f"metadata.ownerReferences[{n}].{name}", '"": must not be empty'
                )


def of_create(bucket: str, value: Json) -> Iterator[Cause]:
    """The problems of an object of a built-in kind."""
    for path in _REQUIRED.get(bucket, ()):
        if _get(value, path) in (None, "", [], {}) and not _excused(bucket, value):
            yield Cause("FieldValueRequired", path)
        if path == "spec.selector":
            yield from _selects_its_own(value)
    template = _get(value, ".".join(TEMPLATES.get(bucket, ())))
    spec = value.get("spec") if bucket == "/pods" else (template or {}).get("spec")
    at = "spec" if bucket == "/pods" else ".".join((*TEMPLATES.get(bucket, ()), "spec"))
    yield from _containers(spec or {}, at)


def _selects_its_own(value: Json) -> Iterator[Cause]:
    labels = _get(value, "spec.template.metadata.labels")
    if not selectors.label_test(_get(value, "spec.selector"))(labels or {}):
        yield Cause(
            "FieldValueInvalid",
            "spec.template.metadata.labels",
            f"{_shown(labels)}: `selector` does not match template `labels`",
        )


def of_update(bucket: str, value: Json, old: Json) -> Iterator[Cause]:
    """The problems of a change of a built-in kind."""
    for path in _IMMUTABLE.get(bucket, ()):
        if _get(value, path) != _get(old, path):
            yield _immutable(value, path)
    rule = _CHANGES.get(bucket)
    if rule:
        yield from rule(value, old)


def _name(bucket: str, metadata: Json) -> Iterator[Cause]:
    name = metadata.get("name", "")
    if not name:
        yield Cause("FieldValueRequired", "metadata.name", "name or generateName is required")
    elif bucket.startswith("rbac.authorization.k8s.io/"):
        if not _SEGMENT.fullmatch(name):
            yield Cause("FieldValueInvalid", "metadata.name", f"\"{name[:100]}\": may not contain '/'")
    elif bucket in _LABEL_NAMED:
        if len(name) > _MAX_LABEL or not _DNS_LABEL.fullmatch(name):
            yield Cause("FieldValueInvalid", "metadata.name", f'"{name[:100]}": {_LABEL_WORDS}')
    elif len(name) > _MAX_NAME:
        yield Cause("FieldValueInvalid", "metadata.name", f'"{name[:100]}": must be no more than 253 bytes')
    elif not _NAME.fullmatch(name):
        yield Cause("FieldValueInvalid", "metadata.name", f'"{name[:100]}": {_NAME_WORDS}')


_KEY_WORDS: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def _label(key: str, value: str, at: str) -> Iterator[Cause]:
    if not _is_key(key):
        yield Cause("FieldValueInvalid", at, f'"{key[:100]}": {_KEY_WORDS}')
    if not is_label_value(value):
        yield Cause(
            "FieldValueInvalid",
            at,
            f"\"{value[:100]}\": a valid label must be an empty string or consist of alphanumeric characters, '-',"
            " '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
            " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        )


@lru_cache(maxsize=4096)
def _is_key(key: str) -> bool:
    domain, _, name = key.rpartition("/")
    return len(name) <= _MAX_LABEL and len(domain) <= _MAX_NAME and _KEY.fullmatch(key) is not None


def _excused(bucket: str, value: Json) -> bool:
    """An ExternalName Service and a headless one need no ports."""
    spec = value.get("spec") or {}
    return bucket == "/services" and (spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None")


def _containers(spec: Json, at: str) -> Iterator[Cause]:
    for group in ("initContainers", "containers"):
        seen: set[str] = set()
        for n, container in enumerate(spec.get(group) or ()):
            name = container.get("name", "")
            if not name:
                yield Cause("FieldValueRequired", f"{at}.{group}[{n}].name")
            elif not _DNS_LABEL.fullmatch(name) or len(name) > _MAX_LABEL:
                yield Cause("FieldValueInvalid", f"{at}.{group}[{n}].name", f'"{name[:100]}": {_LABEL_WORDS}')
            elif name in seen:
                yield Cause("FieldValueDuplicate", f"{at}.{group}[{n}].name", f'"{name}"')
            if not container.get("image"):
                yield Cause("FieldValueRequired", f"{at}.{group}[{n}].image")
            seen.add(name)


def _pod_change(value: Json, old: Json) -> Iterator[Cause]:
    if _fixed(value["spec"]) != _fixed(old["spec"]):
        gated = old["spec"].get("schedulingGates")
        if not (gated and _ungated(value["spec"]) == _ungated(old["spec"])):
            yield Cause("FieldValueForbidden", "spec", _POD_MAY_CHANGE)
    kept = value["spec"].get("tolerations") or ()
    if any(toleration not in kept for toleration in old["spec"].get("tolerations") or ()):
        yield Cause(
            "FieldValueForbidden",
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )


def _fixed(spec: Json) -> Json:
    """The fields of a pod's spec that may not change."""
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"}
    fixed = {name: child for name, child in spec.items() if name not in free}
    for group in ("containers", "initContainers"):
        if group in fixed:
            fixed[group] = [{k: v for k, v in c.items() if k != "image"} for c in fixed[group]]
    return fixed


def _ungated(spec: Json) -> Json:
    """The fields of a pod's spec that may not change while it has scheduling gates."""
    return {name: child for name, child in _fixed(spec).items() if name not in ("nodeSelector", "affinity")}


def _node_change(value: Json, old: Json) -> Iterator[Cause]:
    before = (old.get("spec") or {}).get("providerID")
    if before and (value.get("spec") or {}).get("providerID") != before:
        yield Cause(
            "FieldValueForbidden",
            "spec.providerID",
            'node updates may not change providerID except from "" to valid',
        )


def _job_change(value: Json, old: Json) -> Iterator[Cause]:
    """Queues change where the pods of a suspended Job run, and what they request, before they start it."""
    before, after = old["spec"]["template"], value["spec"]["template"]
    path = "spec.template"
    if _may_change_template(old):
        path = "spec.template.spec"
        before, after = _without_scheduling(before["spec"]), _without_scheduling(after["spec"])
    if before != after:
        yield _immutable(value, path)


def _may_change_template(job: Json) -> bool:
    if not _get(job, "spec.suspend") or _get(job, "status.active"):
        return False
    conditions = _get(job, "status.conditions") or ()
    return not _get(job, "status.startTime") or any(
        one["type"] == "Suspended" and one["status"] == "True" for one in conditions
    )


def _without_scheduling(spec: Json) -> Json:
    """The spec of a pod without the fields that may change while its Job is suspended."""
    kept = {key: spec[key] for key in spec.keys() - _SCHEDULING}
    affinity = {key: value for key, value in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
    kept["affinity"] = affinity
    for name in ("containers", "initContainers"):
        kept[name] = [{**one, "resources": None} for one in spec.get(name) or ()]
    return kept


def _immutable(value: Json, path: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"{_shown(_get(value, path))}: field is immutable")


_CHANGES: Final[Mapping[str, Callable[[Json, Json], Iterator[Cause]]]] = {
    "/pods": _pod_change,
    "/nodes": _node_change,
    "batch/jobs": _job_change,
}


def _get(value: Any, path: str) -> Any:
    for step in path.split(".") if path else ():
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()[:_MAX_SHOWN]
