"""Table cells that are computed from more than one field of an object.

Called by `tables`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.sim.api.schema.defaults import containers

Json = dict[str, Any]

_ACCESS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE: Final = "node-role.kubernetes.io/"


def text(value: Any) -> str:
    """The text of a value in a string column."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def age(time: Any, now_s: int) -> str:
    """The time since a date, in kubectl's format."""
    try:
        then = datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return "<unknown>"
    seconds = int(now_s - then)
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    for below, text in (
        (120, f"{seconds}s"),
        (600, f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"),
        (3 * 3600, f"{minutes}m"),
        (8 * 3600, f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"),
        (48 * 3600, f"{hours}h"),
        (8 * 86400, f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"),
        (2 * 365 * 86400, f"{days}d"),
        (8 * 365 * 86400, f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"),
    ):
        if seconds < below:
            return text
    return f"{days // 365}y"


def labels(given: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((given or {}).items())) or "<none>"


def selector(given: Json | None) -> str:
    return labels((given or {}).get("matchLabels"))


def pod_ready(pod: Json) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    total = len((pod.get("spec") or {}).get("containers") or ())
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{total}"


def pod_status(pod: Json) -> str:
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for container in status.get("containerStatuses") or ():
        for state in ("waiting", "terminated"):
            reason = ((container.get("state") or {}).get(state) or {}).get("reason")
            if reason:
                return str(reason)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", ""))


def pod_restarts(pod: Json) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return str(sum(status.get("restartCount", 0) for status in statuses))


def node_status(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((c.get("status") for c in conditions if c.get("type") == "Ready"), None)
    word = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{word},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else word


def node_roles(node: Json) -> str:
    given = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(_ROLE) for key in given if key.startswith(_ROLE))) or "<none>"


def node_address(type_: str) -> Callable[[Json], str]:
    def cell(node: Json) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((str(a.get("address")) for a in addresses if a.get("type") == type_), "<none>")

    return cell


def event_last_seen(event: Json) -> Any:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((time for time in times if time), event["metadata"].get("creationTimestamp"))


def event_object(event: Json) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def service_ports(service: Json) -> str:
    ports = (service.get("spec") or {}).get("ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in ports) or "<none>"


def access_modes(value: Json) -> str:
    modes = (value.get("spec") or {}).get("accessModes") or ()
    return ",".join(_ACCESS.get(mode, mode) for mode in modes)


def ready_of_replicas(value: Json) -> str:
    ready = (value.get("status") or {}).get("readyReplicas", 0)
    return f"{ready}/{(value.get('spec') or {}).get('replicas', 1)}"


def template_containers(value: Json) -> str:
    return ",".join(container.get("name", "") for container in containers(value["spec"]["template"]["spec"]))


def template_images(value: Json) -> str:
    return ",".join(container.get("image", "") for container in containers(value["spec"]["template"]["spec"]))


def job_status(job: Json) -> str:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True":
            return str(condition.get("type"))
    return "Suspended" if job["spec"].get("suspend") else "Running"


def job_completions(job: Json) -> str:
    done = (job.get("status") or {}).get("succeeded", 0)
    return f"{done}/{job['spec'].get('completions') or job['spec'].get('parallelism') or 1}"
