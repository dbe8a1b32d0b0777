"""The settings of `holdfast run`: one table, read once from flags and environment variables.

A flag and its variable have the same name in two spellings, Karpenter's name if it has the setting. A flag overrides
its variable; an empty variable counts as unset. An invalid value stops the start, and the error names the flag or the
variable. Settings and feature gates of Karpenter that have no effect here are accepted and logged, so that its
deployments start. An unknown gate is rejected: a misspelled gate would silently do the opposite of what the user set.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from holdfast import errors
from holdfast.api import scheduler_config
from holdfast.api.meta import Object
from holdfast.api.scheduler_config import SchedulerConfig
from holdfast.cloud.aws.catalog.capacity import Settings as CapacitySettings
from holdfast.cloud.aws.nodeclass import identity
from holdfast.cloud.aws.nodeclass.ownership import ALONE, BESIDE_KARPENTER, Ownership
from holdfast.controllers.provisioning.provisioner import BatchSettings
from holdfast.core.disruption.inputs import MixedPools, ReleaseSlots
from holdfast.core.disruption.inputs import Settings as DisruptionSettings
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing, PreferencePolicy
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import ClientSettings
from holdfast.model import gangs, prices
from holdfast.runtime import lease, logs
from holdfast.runtime.lease import LeaseSettings
from holdfast.state.conversion import pod_shapes, times

GATES: Final[Mapping[str, bool]] = {  # with their defaults
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeRepair": False,
    "TerminateFirstDrift": True,
    "TerminateFirstRepair": True,
}
GATE_ALIASES: Final[Mapping[str, str]] = {"CapacityReservations": "ReservedCapacity"}
KARPENTER_GATES: Final = (  # accepted, without effect
    "CapacityBuffer",
    "Drift",
    "NodeOverlay",
    "PodDeletionCostManagement",
    "StaticCapacity",
)

V = TypeVar("V")

_PORTS: Final = 65_536
_SHOWN_MAX: Final = 60  # characters of a value that an error repeats
_DIGITS_MAX: Final = 18
_RATE_MAX: Final = 1_000_000
_CANDIDATES_MAX: Final = 1000
_ENIS_MAX: Final = 1000
_SECONDS_MAX: Final = 10 * 365 * 24 * 3600
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+")
_ENDPOINT_VARIABLE: Final = "AWS_ENDPOINT_URL"  # of all services; with a suffix, of one


# --- Values -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the controllers and their adapters, in production and in simulation."""

    cluster_name: str
    cluster_endpoint: str = ""
    cluster_ca_bundle: str = ""
    api_server_ca_bundle: str = ""  # CA of this process's connection to the API server, base64
    service_cidr: str | None = None
    dns_ip: str | None = None
    kubernetes_version: str = ""  # the minor version, such as 1.34
    provisioning_requests: bool = False  # also of Cluster Autoscaler's classes
    optional_kinds: tuple[
        type[Object], ...
    ] = ()  # those that the API server serves and this process may read
    isolated_vpc: bool = False
    interruption_queue: str = ""  # name; empty: no queue
    dry_runs: bool = True  # of EC2 calls, before an EC2NodeClass is Ready
    batching: BatchSettings = field(default_factory=BatchSettings)
    planning: PlanSettings = field(default_factory=PlanSettings)
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)
    capacity: CapacitySettings = field(default_factory=CapacitySettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    election: LeaseSettings | None = None  # None: no leader election
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)  # of the cluster's kube-scheduler
    replica: str = ""  # the name of the pod that this process runs in, if any
    ownership: Ownership = ALONE  # which NodePools, and so which objects, are ours
    metrics_per_object: bool = False  # series for each pod, node and NodeClaim
    offering_metrics: bool = False  # series for each offering
    strict: bool = False  # an unexpected error ends the program: for simulations and CI


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Settings of the process in production: of the controllers, connections, ports and logs."""

    app: Settings
    kubeconfig: str = ""
    context: str = ""
    region: str = ""  # empty: as botocore finds it
    bind_address: str = ""  # empty: all addresses
    metrics_port: int = 8080
    health_probe_port: int = 8081
    api_port: int = 8082
    api_bind_address: str = "127.0.0.1"  # empty: all addresses
    dashboard: bool = False
    log_level: logs.Level = "info"
    log_format: str = "auto"
    beside_karpenter: bool = False
    without_effect: tuple[str, ...] = ()  # settings that the user set and that have no effect


# --- Parsers ------------------------------------------------------------------------------------------


def _text(written: str) -> str:
    return written


def _seconds(written: str) -> int:
    seconds = times.duration_s(written)
    if seconds is None:
        raise ValueError("is not a duration such as 90s or 5m")
    if seconds > _SECONDS_MAX:
        raise ValueError(f"is not a duration of at most {_SECONDS_MAX // 3600}h")
    return seconds


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(written: str) -> int:
        plain = written.isascii() and written.isdigit() and len(written) <= _DIGITS_MAX
        if not plain or not least <= int(written) <= most:
            raise ValueError(f"is not a whole number from {least} to {most}")
        return int(written)

    return read


def _region(written: str) -> str:
    if not _REGION.fullmatch(written):
        raise ValueError("is not the name of a region such as eu-west-1")
    return written


def _part(written: str) -> float:
    try:
        part = float(written)
    except ValueError:
        raise ValueError("is not a number such as 0.075") from None
    if not 0 <= part < 1:
        raise ValueError("is not a number from 0 to less than 1")
    return part


def _price(written: str) -> int:
    try:
        return prices.parse(written)
    except errors.InvalidInput:
        raise ValueError("is not a number of USD an hour such as 0.0005") from None


def _flag(written: str) -> bool:
    return _word(("true", "false"), str)(written.lower()) == "true"


def _url(written: str) -> str:
    try:
        parts = urlsplit(written)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # an invalid port, or brackets around no address
        complete = False
    if not complete:
        raise ValueError("is not an address such as https://cluster.example")
    return written


def _network(written: str) -> str:
    try:
        return str(ipaddress.ip_network(written))
    except ValueError:
        raise ValueError("is not a range of addresses such as 10.100.0.0/16") from None


def _address(written: str) -> str:
    try:
        return str(ipaddress.ip_address(written))
    except ValueError:
        raise ValueError("is not an IP address") from None


def _listening(written: str) -> str:
    """Empty: all addresses."""
    return "" if written == "all" else _address(written)


def _ca_bundle(written: str) -> str:
    if not identity.certificates(written):
        raise ValueError("is not PEM certificates in base64")
    return "".join(written.split())


def _gang_sources(written: str) -> AbstractSet[str]:
    try:
        return gangs.sources(written)
    except errors.InvalidInput as error:
        raise ValueError(str(error)) from error


def _scheduler(written: str) -> SchedulerConfig:
    try:
        found = scheduler_config.parse(written)
        for constraint in found.pod_topology_spread.default_constraints:
            pod_shapes.spread(constraint)
    except errors.InvalidInput as error:
        raise ValueError(f"is refused: {error}") from error
    return found


def _word(allowed: Sequence[str], make: Callable[[str], V]) -> Callable[[str], V]:
    def read(written: str) -> V:
        if written not in allowed:
            raise ValueError(f"is none of {', '.join(allowed)}")
        return make(written)

    return read


def _words(choices: type[StrEnum]) -> Callable[[str], Any]:
    return _word([choice.value for choice in choices], choices)


def gates(written: str) -> dict[str, bool]:
    """Parses `Name=true,Other=false`; other gates keep their defaults. Includes gates of Karpenter without effect only
    if they are on."""
    found = dict(GATES)
    for part in filter(None, (one.strip() for one in written.split(","))):
        name, separator, value = (one.strip() for one in part.partition("="))
        if not separator or value.lower() not in ("true", "false"):
            raise ValueError("is not of the form Name=true,Other=false")
        gate, on = GATE_ALIASES.get(name, name), value.lower() == "true"
        if gate in GATES or (gate in KARPENTER_GATES and on):
            found[gate] = on
        elif gate not in KARPENTER_GATES:
            raise ValueError(
                f"has the unknown gate {name[:_SHOWN_MAX]!r}; did you mean {_nearest_gate(name)}?"
            )
    return found


def _nearest_gate(name: str) -> str:
    known = {gate.lower(): gate for gate in (*GATES, *KARPENTER_GATES, *GATE_ALIASES)}
    return known[difflib.get_close_matches(name[:_SHOWN_MAX].lower(), known, n=1, cutoff=0)[0]]


# --- The table ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    name: str  # of the flag, without dashes
    default: str
    help: str
    read: Callable[[str], Any] = _text

    @property
    def variable(self) -> str:
        return self.name.upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        return self.read is _flag


TABLE: Final = (
    Setting("cluster-name", "", "Name of the EKS cluster, also in the tags of its subnets. Required."),
    Setting("cluster-endpoint", "", "Endpoint of the API server for nodes. Default: from EKS.", _url),
    Setting("cluster-ca-bundle", "", "CA of the API server, base64-encoded PEM. Default: the CA of the kubeconfig or service account.", _ca_bundle),
    Setting("service-cidr", "", "CIDR of Services. Default: from EKS.", _network),
    Setting("cluster-dns-ip", "", "IP address of the cluster's DNS. Default: from the Service kube-dns.", _address),
    Setting("isolated-vpc", "false", "Do not call services outside the VPC; use the shipped prices.", _flag),
    Setting("aws-region", "", "AWS region. Default: from the AWS profile or the instance metadata.", _region),
    Setting("disable-dry-run", "false", "Do not dry-run EC2 calls before an EC2NodeClass is Ready.", _flag),
    Setting("interruption-queue", "", "Name of the SQS queue with interruption messages. Default: none."),
    Setting("vm-memory-overhead-percent", "0.075", "Part of an instance's memory that is not available to the OS.", _part),
    Setting("reserved-enis", "0", "Network interfaces that pods cannot use.", _number(0, _ENIS_MAX)),
    Setting("batch-idle-duration", "1s", "Plan a batch of pending pods after this long without a new one.", _seconds),
    Setting("batch-max-duration", "10s", "Plan a batch of pending pods after this long at the latest.", _seconds),
    Setting("preference-policy", "Respect", "Respect or Ignore preferred constraints of pods.", _words(PreferencePolicy)),
    Setting("min-values-policy", "Strict", "Strict or BestEffort enforcement of minValues.", _words(MinValuesPolicy)),
    Setting("feature-gates", "ReservedCapacity=true", "Feature gates: Name=true,Other=false.", gates),
    Setting("packing", "cost", "cost tries several packings and keeps the cheapest plan; karpenter is first fit alone.", _words(Packing)),
    Setting("packing-candidates", "16", "Number of alternative packings to try.", _number(0, _CANDIDATES_MAX)),
    Setting("gang-candidates", "16", "Number of sets of gangs to try if not all gangs fit.", _number(0, _CANDIDATES_MAX)),
    Setting("gang-hold", "0s", "How long slots are held for the first gang that does not fit, from its creation.", _seconds),
    Setting("gangs-of", gangs.sources_text(frozenset(gangs.LABELLED)), "Whose pods start together, by their labels: JobSet,LeaderWorkerSet, or none.", _gang_sources),
    Setting("start-estimate", "5m", "How long until a pod that gets a new node runs, for pods with a known run time.", _seconds),
    Setting("provisioning-requests", "false", "Also answer ProvisioningRequests of the classes of Cluster Autoscaler.", _flag),
    Setting("node-cost", "0.02", "USD per hour that a node costs in addition to its instance.", _price),
    Setting("burstable-cpu-percent", "100", "Part of a burstable type's vCPUs that pods can use.", _number(0, 100)),
    Setting("reserved-before-weight", "true", "Prefer a free reserved slot to a NodePool with more weight.", _flag),
    Setting("reservation-wait", "0s", "How long a pod waits for a slot to become free.", _seconds),
    Setting("ledger-lag", "2m", "How long EC2's reservation counts may lag behind a launch.", _seconds),
    Setting("roll-mixed-pools", "wait", "Replace reserved nodes in the same slot (wait) or with other capacity (fallback).", _words(MixedPools)),
    Setting("release-slots", "when-waited-for", "Consolidation empties a reserved slot when a pending pod needs it, or always.", _words(ReleaseSlots)),
    Setting("consolidation-saving-per-pod", "0.0005", "USD per hour that consolidation must save for each evicted pod.", _price),
    Setting("consolidation-cooldown", "10m", "How long consolidation does not move a pod again.", _seconds),
    Setting("kubeconfig", "", "Path of the kubeconfig. Default: the pod's service account, or as kubectl."),
    Setting("context", "", "Context of the kubeconfig. Default: the current context."),
    Setting("kube-client-qps", "1000", "Requests per second to the API server.", _number(1, _RATE_MAX)),
    Setting("kube-client-burst", "1000", "Burst of requests to the API server.", _number(1, _RATE_MAX)),
    Setting("disable-leader-election", "false", "Run without a Lease; for a single replica.", _flag),
    Setting("leader-election-name", lease.NAME, "Name of the Lease."),
    Setting("leader-election-namespace", "", "Namespace of the Lease. Default: the pod's, or kube-system."),
    Setting("beside-karpenter", "false", "Run beside Karpenter: act only on NodePools whose nodeClassRef has the group holdfast.dev.", _flag),
    Setting("metrics-port", "8080", "Port of /metrics.", _number(0, _PORTS - 1)),
    Setting("metrics-per-object", "false", "Metrics have series for each pod, node and NodeClaim, as in Karpenter, and not sums.", _flag),
    Setting("offering-metrics", "false", "Metrics have the price and availability of each offering, as in Karpenter.", _flag),
    Setting("health-probe-port", "8081", "Port of /healthz and /readyz.", _number(0, _PORTS - 1)),
    Setting("bind-address", "", "Address of both ports. Default: all addresses.", _address),
    Setting("api-port", "8082", "Port of the JSON API that explains decisions.", _number(0, _PORTS - 1)),
    Setting("api-bind-address", "127.0.0.1", "Address of the JSON API; all: all addresses. It has no authentication.", _listening),
    Setting("dashboard", "false", "Serve the web page on the port of the JSON API.", _flag),
    Setting("scheduler-config", "", "Default topology spread constraints of kube-scheduler, as YAML or JSON.", _scheduler),
    Setting("log-level", "info", "Minimum level of log lines.", _word(tuple(logs.LEVELS), str)),
    Setting("log-format", "auto", "json, text, or auto: text on a terminal, else json.", _word(("auto", "json", "text"), str)),
)  # fmt: skip

WITHOUT_EFFECT: Final = (
    "ami-refresh-interval",
    "aws-feature-gates",
    "cpu-requests",
    "disable-cluster-state-observability",
    "disable-controller-warmup",
    "eks-control-plane",
    "enable-profiling",
    "enable-zonal-shift",
    "ignore-dra-requests",
    "karpenter-service",
    "legacy-node-repair",
    "log-error-output-paths",
    "log-output-paths",
    "memory-limit",
    "subnet-refresh-interval",
)


# --- Reading ------------------------------------------------------------------------------------------


def read(flags: Mapping[str, str], environ: Mapping[str, str]) -> Program:
    """The settings from flags (by name, without dashes) and environment variables, or InvalidInput."""
    found = {setting.name: _value(setting, flags, environ) for setting in TABLE}
    if not found["cluster-name"]:
        raise errors.InvalidInput("--cluster-name: required; or set CLUSTER_NAME")
    without_effect = [
        name for name in WITHOUT_EFFECT if name in flags or environ.get(Setting(name, "", "").variable)
    ]
    without_effect += [f"feature-gates {gate}" for gate in found["feature-gates"] if gate not in GATES]
    for variable in sorted(environ):
        if variable.startswith(_ENDPOINT_VARIABLE) and environ[variable]:
            _read(_url, variable, environ[variable])
    return Program(
        app=replace(_app(found), replica=environ.get("POD_NAME") or environ.get("HOSTNAME", "")),
        kubeconfig=found["kubeconfig"],
        context=found["context"],
        region=found["aws-region"],
        bind_address=found["bind-address"],
        metrics_port=found["metrics-port"],
        health_probe_port=found["health-probe-port"],
        api_port=found["api-port"],
        api_bind_address=found["api-bind-address"],
        dashboard=found["dashboard"],
        log_level=found["log-level"],
        log_format=found["log-format"],
        beside_karpenter=found["beside-karpenter"],
        without_effect=tuple(without_effect),
    )


def _value(setting: Setting, flags: Mapping[str, str], environ: Mapping[str, str]) -> Any:
    if setting.name in flags:
        name, written = f"--{setting.name}", flags[setting.name]
    else:
        name, written = setting.variable, environ.get(setting.variable, "")
    written = written or setting.default
    if not written:
        return ""
    return _read(setting.read, name, written)


def _read(read: Callable[[str], V], name: str, written: str) -> V:
    try:
        return read(written)
    except ValueError as error:
        shown = written if len(written) <= _SHOWN_MAX else f"{written[:_SHOWN_MAX]}..."
        raise errors.InvalidInput(f"{name}: {shown!r} {error}") from error


def _app(found: Mapping[str, Any]) -> Settings:
    gate = found["feature-gates"]
    reserved = gate["ReservedCapacity"]
    election = LeaseSettings(found["leader-election-namespace"], found["leader-election-name"])
    return Settings(
        cluster_name=found["cluster-name"],
        cluster_endpoint=found["cluster-endpoint"],
        cluster_ca_bundle=found["cluster-ca-bundle"],
        service_cidr=found["service-cidr"] or None,
        dns_ip=found["cluster-dns-ip"] or None,
        isolated_vpc=found["isolated-vpc"],
        interruption_queue=found["interruption-queue"],
        dry_runs=not found["disable-dry-run"],
        provisioning_requests=found["provisioning-requests"],
        batching=BatchSettings(found["batch-idle-duration"], found["batch-max-duration"]),
        planning=PlanSettings(
            packing=found["packing"],
            packing_candidates=found["packing-candidates"],
            gang_candidates=found["gang-candidates"],
            gang_hold_s=found["gang-hold"],
            gangs_of=found["gangs-of"],
            start_estimate_s=found["start-estimate"],
            node_cost_nano=found["node-cost"],
            reserved_capacity=reserved,
            reserved_before_weight=found["reserved-before-weight"],
            reservation_wait_s=found["reservation-wait"],
            preference_policy=found["preference-policy"],
            min_values_policy=found["min-values-policy"],
            ledger_lag_s=found["ledger-lag"],
        ),
        disruption=DisruptionSettings(
            spot_to_spot=gate["SpotToSpotConsolidation"],
            terminate_first_drift=gate["TerminateFirstDrift"],
            terminate_first_repair=gate["TerminateFirstRepair"],
            roll_mixed_pools=found["roll-mixed-pools"],
            release_slots=found["release-slots"],
            saving_per_pod_nano=found["consolidation-saving-per-pod"],
            node_repair=gate["NodeRepair"],
            cooldown_s=found["consolidation-cooldown"],
        ),
        capacity=CapacitySettings(
            vm_memory_overhead_percent=found["vm-memory-overhead-percent"],
            reserved_enis=found["reserved-enis"],
            burstable_cpu_percent=found["burstable-cpu-percent"],
            reserved_capacity=reserved,
        ),
        client=ClientSettings(per_second=found["kube-client-qps"], burst=found["kube-client-burst"]),
        election=None if found["disable-leader-election"] else election,
        scheduler=found["scheduler-config"] or SchedulerConfig(),
        metrics_per_object=found["metrics-per-object"],
        offering_metrics=found["offering-metrics"],
        ownership=BESIDE_KARPENTER if found["beside-karpenter"] else ALONE,
    )
