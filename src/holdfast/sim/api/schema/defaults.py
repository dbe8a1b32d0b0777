"""The defaults of built-in kinds.

Called by `registry` on every write of a built-in kind. `admission` sets values that depend on other objects
(priorities, tolerations, the address of a Service). Objects are changed in place.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]

_POD: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODE: Final = 0o644
_VOLUME_MODES: Final = ("configMap", "secret", "downwardAPI", "projected")
_SPECS: Final[Mapping[str, Json]] = {
    "apps/deployments": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "apps/replicasets": {"replicas": 1},
    "apps/statefulsets": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"},
    "apps/daemonsets": {"revisionHistoryLimit": 10},
    "batch/jobs": {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": False,
    },
    "batch/cronjobs": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "/replicationcontrollers": {"replicas": 1},
    "/services": {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    },
    "/persistentvolumeclaims": {"volumeMode": "Filesystem"},
    "/persistentvolumes": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "/namespaces": {"finalizers": ["kubernetes"]},
    "autoscaling/horizontalpodautoscalers": {"minReplicas": 1},
    "storage.k8s.io/csidrivers": {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    },
    "apiextensions.k8s.io/customresourcedefinitions": {"conversion": {"strategy": "None"}},
}
_TOPS: Final[Mapping[str, Json]] = {
    "/secrets": {"type": "Opaque"},
    "storage.k8s.io/storageclasses": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "scheduling.k8s.io/priorityclasses": {"preemptionPolicy": "PreemptLowerPriority"},
}
_STATUSES: Final[Mapping[str, Json]] = {
    "/pods": {"phase": "Pending"},
    "/namespaces": {"phase": "Active"},
    "/persistentvolumeclaims": {"phase": "Pending"},
    "/persistentvolumes": {"phase": "Pending"},
    "/services": {"loadBalancer": {}},
    "apps/daemonsets": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "apps/replicasets": {"replicas": 0},
    "apps/statefulsets": {"replicas": 0, "availableReplicas": 0},
    "policy/poddisruptionbudgets": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
}
# Kinds with a pod template, and its path.
TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "apps/deployments": ("spec", "template"),
    "apps/replicasets": ("spec", "template"),
    "apps/statefulsets": ("spec", "template"),
    "apps/daemonsets": ("spec", "template"),
    "batch/jobs": ("spec", "template"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template"),
    "/replicationcontrollers": ("spec", "template"),
    "/podtemplates": ("template",),
}


def fill(bucket: str, value: Json) -> None:
    """Sets the defaults of the kind in a bucket."""
    _fill(value, _TOPS.get(bucket, {}))
    if bucket in _SPECS:
        _fill(value.setdefault("spec", {}), _SPECS[bucket])
    if bucket in _STATUSES:
        _fill(value.setdefault("status", {}), _STATUSES[bucket])
    template = _at(value, TEMPLATES.get(bucket, ()))
    if template is not None and template is not value:
        _pod_spec(template.setdefault("spec", {}))
    special = _SPECIAL.get(bucket)
    if special:
        special(value)


def containers(spec: Json) -> Iterator[Json]:
    """Every container of a pod's spec."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _fill(value: Json, defaults: Mapping[str, Any]) -> None:
    for name, default in defaults.items():
        value.setdefault(name, default)


def _at(value: Json, path: tuple[str, ...]) -> Json | None:
    found: Any = value
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _pod(value: Json) -> None:
    spec = value.setdefault("spec", {})
    _pod_spec(spec)
    _fill(spec, {"enableServiceLinks": True})
    for container in containers(spec):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:  # requests default to the limits
            requests = resources.setdefault("requests", {})
            _fill(requests, limits)


def _pod_spec(spec: Json) -> None:
    _fill(spec, _POD)
    spec.setdefault("securityContext", {})
    for container in containers(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        if len(volume) == 1:
            volume["emptyDir"] = {}
        for source in _VOLUME_MODES:
            if source in volume:
                volume[source].setdefault("defaultMode", _MODE)
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")


def _container(container: Json) -> None:
    _fill(container, _CONTAINER)
    container.setdefault("resources", {})
    if container.get("image"):
        container.setdefault("imagePullPolicy", _pull_policy(container["image"]))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _fill(container[name], _PROBE)
            if "httpGet" in container[name]:
                _fill(container[name]["httpGet"], {"scheme": "HTTP", "path": "/"})
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    _, _, tag = name.partition(":")
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _deployment(value: Json) -> None:
    strategy = value["spec"].setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _daemon_set(value: Json) -> None:
    strategy = value["spec"].setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})


def _stateful_set(value: Json) -> None:
    strategy = value["spec"].setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), {"partition": 0})
    retention = value["spec"].setdefault("persistentVolumeClaimRetentionPolicy", {})
    _fill(retention, {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _job(value: Json) -> None:
    spec = value["spec"]
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _service(value: Json) -> None:
    for port in value["spec"].get("ports") or ():
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])


def _role_binding(value: Json) -> None:
    value.setdefault("roleRef", {}).setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in value.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _definition(value: Json) -> None:
    names = value["spec"].setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")


def _node(value: Json) -> None:
    state = value.get("status") or {}
    if "capacity" in state:
        state.setdefault("allocatable", dict(state["capacity"]))


_SPECIAL: Final[Mapping[str, Callable[[Json], None]]] = {
    "/nodes": _node,
    "/pods": _pod,
    "/services": _service,
    "apps/deployments": _deployment,
    "apps/daemonsets": _daemon_set,
    "apps/statefulsets": _stateful_set,
    "batch/jobs": _job,
    "rbac.authorization.k8s.io/rolebindings": _role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": _role_binding,
    "apiextensions.k8s.io/customresourcedefinitions": _definition,
}
