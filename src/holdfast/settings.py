"""Everything that a user may set: one table, read from flags and environment variables, once, when the program starts.

Callers: `holdfast run`, which shows the table as its help; `production` and `app` read the values. The rules: a flag and
its variable are the same name in two spellings, Karpenter's where it has one; a flag beats a variable, and an empty
variable is none; what cannot be read stops the start and is named as it was written. Karpenter's settings that nothing
acts on are accepted, so that its deployments start, and are said in the log; so are its feature gates. A gate that
neither has is refused: a misspelled gate that is accepted does the opposite of what was meant.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from holdfast import errors
from holdfast.api import scheduler_config
from holdfast.api.scheduler_config import SchedulerConfig
from holdfast.cloud.aws import identity
from holdfast.cloud.aws.capacity import Settings as CapacitySettings
from holdfast.controllers.provisioning.provisioner import BatchSettings
from holdfast.core.disruption.inputs import MixedPools, ReleaseSlots
from holdfast.core.disruption.inputs import Settings as DisruptionSettings
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing, PreferencePolicy
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import ClientSettings
from holdfast.model import prices
from holdfast.runtime import lease, logs
from holdfast.runtime.lease import LeaseSettings
from holdfast.state import pod_shapes, times

GATES: Final[Mapping[str, bool]] = {  # those that are acted on, with their defaults
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeRepair": False,
    "TerminateFirstDrift": True,
    "TerminateFirstRepair": True,
}
GATE_ALIASES: Final[Mapping[str, str]] = {"CapacityReservations": "ReservedCapacity"}
KARPENTER_GATES: Final = (  # that nothing here acts on
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


# --- What the settings become -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of the controllers and what they stand on, in whatever world."""

    cluster_name: str
    cluster_endpoint: str = ""
    cluster_ca_bundle: str = ""
    api_server_ca_bundle: str = ""  # what our own connection to the API server is verified with, in base64
    service_cidr: str | None = None
    dns_ip: str | None = None
    kubernetes_version: str = ""  # the minor version, such as 1.34
    isolated_vpc: bool = False
    interruption_queue: str = ""  # its name; empty: there is none
    dry_runs: bool = True  # whether a node class is tried out before it is Ready
    batching: BatchSettings = field(default_factory=BatchSettings)
    planning: PlanSettings = field(default_factory=PlanSettings)
    disruption: DisruptionSettings = field(default_factory=DisruptionSettings)
    capacity: CapacitySettings = field(default_factory=CapacitySettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    election: LeaseSettings | None = None  # None: it leads without asking
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)  # of the cluster's kube-scheduler
    strict: bool = False  # a bug of ours ends the program: for simulations and CI


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Of the program in production: its controllers, and how it meets the world."""

    app: Settings
    kubeconfig: str = ""
    context: str = ""
    region: str = ""  # empty: as the AWS libraries find it
    bind_address: str = ""  # empty: all
    metrics_port: int = 8080
    health_probe_port: int = 8081
    log_level: logs.Level = "info"
    log_format: str = "auto"
    beside_karpenter: bool = False
    not_acted_on: tuple[str, ...] = ()  # settings that were given and change nothing


# --- How values are written ---------------------------------------------------------------------------


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
    except ValueError:  # a port that is none, or brackets around what is no address
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


def _ca_bundle(written: str) -> str:
    if not identity.certificates(written):
        raise ValueError("is not PEM certificates in base64")
    return "".join(written.split())


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
    """Gates as `Name=true,Other=false`; those that are not named keep their defaults. A gate of Karpenter's that is not
    acted on is among them if it is switched on."""
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
                f"names the gate {name[:_SHOWN_MAX]!r}, which there is not; did you mean {_nearest_gate(name)}?"
            )
    return found


def _nearest_gate(name: str) -> str:
    known = {gate.lower(): gate for gate in (*GATES, *KARPENTER_GATES, *GATE_ALIASES)}
    return known[difflib.get_close_matches(name[:_SHOWN_MAX].lower(), known, n=1, cutoff=0)[0]]


# --- The table ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    name: str  # the flag, without its dashes
    default: str
    about: str
    read: Callable[[str], Any] = _text
    ours: bool = False  # not one of Karpenter's

    @property
    def variable(self) -> str:
        return self.name.upper().replace("-", "_")

    @property
    def is_switch(self) -> bool:
        return self.read is _flag


TABLE: Final = (
    Setting("cluster-name", "", "The cluster's name, as EKS and the tags of subnets have it. Required."),
    Setting("cluster-endpoint", "", "Where nodes find the API server. Default: what EKS says.", _url),
    Setting("cluster-ca-bundle", "", "CA of the API server, PEM in base64. Default: of our own connection to it.", _ca_bundle),
    Setting("service-cidr", "", "Addresses of services. Default: what EKS says.", _network, ours=True),
    Setting("cluster-dns-ip", "", "Address of the cluster's DNS. Default: of the service kube-dns.", _address, ours=True),
    Setting("isolated-vpc", "false", "No call leaves the VPC: prices are those that were shipped.", _flag),
    Setting("aws-region", "", "Default: the one of the AWS profile, or of this machine.", _region, ours=True),
    Setting("disable-dry-run", "false", "Node classes are not tried out before they are Ready.", _flag),
    Setting("interruption-queue", "", "The SQS queue in which EC2's warnings arrive. Default: none is read."),
    Setting("vm-memory-overhead-percent", "0.075", "The part of memory that a virtual machine loses.", _part),
    Setting("reserved-enis", "0", "Network interfaces that are not for pods.", _number(0, _ENIS_MAX)),
    Setting("batch-idle-duration", "1s", "A batch of pending pods ends when none came for so long.", _seconds),
    Setting("batch-max-duration", "10s", "The longest a batch of pending pods stays open.", _seconds),
    Setting("preference-policy", "Respect", "Whether wishes of pods count.", _words(PreferencePolicy)),
    Setting("min-values-policy", "Strict", "Whether minValues is kept.", _words(MinValuesPolicy)),
    Setting("feature-gates", "ReservedCapacity=true", "Name=true,Other=false; the names are in the manual.", gates),
    Setting("packing", "cost", "How nodes are filled.", _words(Packing), ours=True),
    Setting("packing-candidates", "16", "How many other packings are tried.", _number(0, _CANDIDATES_MAX), ours=True),
    Setting("node-cost", "0.02", "USD an hour that each node costs beside its instance.", _price, ours=True),
    Setting("burstable-cpu-percent", "100", "How much of burstable types' vCPUs pods use.", _number(0, 100), ours=True),
    Setting("reserved-before-weight", "true", "A free slot comes before a heavier NodePool.", _flag, ours=True),
    Setting("reservation-wait", "0s", "How long a pod waits for a slot that frees.", _seconds, ours=True),
    Setting("ledger-lag", "2m", "How long a count of EC2 may not show a launch.", _seconds, ours=True),
    Setting("roll-mixed-pools", "wait", "wait for the own slot, or fallback to what is bought.", _words(MixedPools), ours=True),
    Setting("release-slots", "when-waited-for", "When consolidation empties a slot.", _words(ReleaseSlots), ours=True),
    Setting("consolidation-saving-per-pod", "0.0005", "USD an hour that evicting a pod has to save.", _price, ours=True),
    Setting("consolidation-cooldown", "10m", "A pod that consolidation moved stays for so long.", _seconds, ours=True),
    Setting("kubeconfig", "", "Default: the service account of the pod, or as kubectl.", ours=True),
    Setting("context", "", "The context of the kubeconfig. Default: its current one.", ours=True),
    Setting("kube-client-qps", "1000", "Requests a second to the API server.", _number(1, _RATE_MAX)),
    Setting("kube-client-burst", "1000", "Requests at once to the API server.", _number(1, _RATE_MAX)),
    Setting("disable-leader-election", "false", "Leads without asking. For a single replica.", _flag),
    Setting("leader-election-name", lease.NAME, "The Lease of the leader."),
    Setting("leader-election-namespace", "", "Its namespace. Default: the pod's, or kube-system."),
    Setting("beside-karpenter", "false", "Starts although Karpenter leads in this cluster.", _flag, ours=True),
    Setting("metrics-port", "8080", "Serves /metrics.", _number(0, _PORTS - 1)),
    Setting("health-probe-port", "8081", "Serves /healthz and /readyz.", _number(0, _PORTS - 1)),
    Setting("bind-address", "", "Where both ports are opened. Default: everywhere.", _address, ours=True),
    Setting("scheduler-config", "", "Of kube-scheduler: how it spreads pods by itself, as YAML or JSON.", _scheduler),
    Setting("log-level", "info", "The least that is logged.", _word(tuple(logs.LEVELS), str)),
    Setting("log-format", "auto", "auto is text on a terminal, else JSON.", _word(("auto", "json", "text"), str), ours=True),
)  # fmt: skip

NOT_ACTED_ON: Final = (
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
    """The settings that these flags (by name, without dashes) and variables stand for, or InvalidInput."""
    found = {setting.name: _value(setting, flags, environ) for setting in TABLE}
    if not found["cluster-name"]:
        raise errors.InvalidInput("--cluster-name: required; or set CLUSTER_NAME")
    given = [name for name in NOT_ACTED_ON if name in flags or environ.get(Setting(name, "", "").variable)]
    given += [f"feature-gates {gate}" for gate in found["feature-gates"] if gate not in GATES]
    for variable in sorted(environ):
        if variable.startswith(_ENDPOINT_VARIABLE) and environ[variable]:
            _read(_url, variable, environ[variable])
    return Program(
        app=_app(found),
        kubeconfig=found["kubeconfig"],
        context=found["context"],
        region=found["aws-region"],
        bind_address=found["bind-address"],
        metrics_port=found["metrics-port"],
        health_probe_port=found["health-probe-port"],
        log_level=found["log-level"],
        log_format=found["log-format"],
        beside_karpenter=found["beside-karpenter"],
        not_acted_on=tuple(given),
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
        batching=BatchSettings(found["batch-idle-duration"], found["batch-max-duration"]),
        planning=PlanSettings(
            packing=found["packing"],
            packing_candidates=found["packing-candidates"],
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
    )
