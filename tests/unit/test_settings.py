"""Settings are read from flags and environment variables."""

import pytest

from holdfast import errors
from holdfast.app import settings
from holdfast.app.settings import Program
from holdfast.core.disruption.inputs import Settings as DisruptionSettings
from holdfast.core.scheduling.input.request import Packing

NAME = {"CLUSTER_NAME": "blue"}
_MAYBE = (
    "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Maybe}]}"
)


def read(environ: dict[str, str] | None = None, **flags: str) -> Program:
    return settings.read({name.replace("_", "-"): value for name, value in flags.items()}, environ or NAME)


@pytest.mark.fact("O-1")
def test_gates_keep_their_defaults_unless_set() -> None:
    plain = {
        "ReservedCapacity": True,
        "SpotToSpotConsolidation": False,
        "NodeRepair": False,
        "TerminateFirstDrift": True,
        "TerminateFirstRepair": True,
    }
    assert settings.gates("") == plain
    assert settings.gates("ReservedCapacity=false") == plain | {"ReservedCapacity": False}
    assert settings.gates("NodeRepair=true, SpotToSpotConsolidation = false") == plain | {"NodeRepair": True}


@pytest.mark.fact("O-1")
@pytest.mark.parametrize(
    ("gate", "nearest"),
    [("NodeRepar", "NodeRepair"), ("reservedcapacity", "ReservedCapacity"), ("NodeOverlays", "NodeOverlay")],
)
def test_an_unknown_gate_is_rejected_with_the_nearest_name(gate: str, nearest: str) -> None:
    with pytest.raises(errors.InvalidInput, match=rf"^--feature-gates: .* did you mean {nearest}\?$"):
        read(feature_gates=f"NodeRepair=true,{gate}=true")


@pytest.mark.fact("O-1")
def test_karpenter_gates_without_effect_are_accepted_and_listed_when_on() -> None:
    found = read(feature_gates="NodeOverlay=true,StaticCapacity=false,NodeRepair=true")
    assert found.without_effect == ("feature-gates NodeOverlay",)
    assert found.app.disruption.node_repair


def test_disruption_gates_and_settings_are_passed_on() -> None:
    gates = (
        "SpotToSpotConsolidation=true,NodeRepair=true,TerminateFirstDrift=false,TerminateFirstRepair=false"
    )
    found = read(feature_gates=gates, roll_mixed_pools="fallback", consolidation_cooldown="5m").app.disruption
    assert (found.spot_to_spot, found.node_repair) == (True, True)
    assert (found.terminate_first_drift, found.terminate_first_repair) == (False, False)
    assert (found.roll_mixed_pools, found.cooldown_s) == ("fallback", 300)
    assert read().app.disruption == DisruptionSettings()


@pytest.mark.parametrize("name", ["ReservedCapacity", "CapacityReservations"])
def test_the_reserved_capacity_gate_has_both_documented_names(name: str) -> None:
    off, on = read(feature_gates=f"{name}=false").app, read(feature_gates=f"{name}=true").app
    assert (off.planning.reserved_capacity, off.capacity.reserved_capacity) == (False, False)
    assert (on.planning.reserved_capacity, on.capacity.reserved_capacity) == (True, True)


@pytest.mark.fact("aws-10.2")
def test_every_variable_is_read_by_its_name() -> None:
    found = read(
        {
            "CLUSTER_NAME": "blue",
            "BATCH_IDLE_DURATION": "2s",
            "BATCH_MAX_DURATION": "1m",
            "PACKING": "karpenter",
            "PACKING_CANDIDATES": "3",
            "RESERVED_BEFORE_WEIGHT": "false",
            "RESERVATION_WAIT": "90s",
            "LEDGER_LAG": "3m",
            "DISABLE_LEADER_ELECTION": "true",
            "DISABLE_DRY_RUN": "true",
            "KUBE_CLIENT_QPS": "50",
            "VM_MEMORY_OVERHEAD_PERCENT": "0.1",
            "RESERVED_ENIS": "1",
            "METRICS_PORT": "9090",
            "AWS_REGION": "eu-west-1",
        }
    )
    app, plan = found.app, found.app.planning
    assert (app.cluster_name, app.batching.idle_s, app.batching.longest_s) == ("blue", 2, 60)
    assert (plan.packing, plan.packing_candidates) == (Packing.KARPENTER, 3)
    assert (plan.reserved_before_weight, plan.reservation_wait_s, plan.ledger_lag_s) == (False, 90, 180)
    assert (app.capacity.vm_memory_overhead_percent, app.capacity.reserved_enis) == (0.1, 1)
    assert app.election is None
    assert not app.dry_runs
    assert app.client.per_second == 50
    assert (found.metrics_port, found.region) == (9090, "eu-west-1")


@pytest.mark.parametrize(
    "written",
    [
        "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
        """{"podTopologySpread": {"defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}""",
    ],
)
def test_the_scheduler_configuration_is_yaml_or_json(written: str) -> None:
    found = read({"CLUSTER_NAME": "blue", "SCHEDULER_CONFIG": written}).app.scheduler
    (constraint,) = found.pod_topology_spread.default_constraints
    assert (constraint.max_skew, constraint.topology_key) == (1, "zone")


@pytest.mark.parametrize("written", ["a: {", "profiles: []", "[]", "a: 1\n---\nb: 2", _MAYBE])
def test_an_invalid_scheduler_configuration_is_rejected(written: str) -> None:
    with pytest.raises(errors.InvalidInput, match="SCHEDULER_CONFIG"):
        read({"CLUSTER_NAME": "blue", "SCHEDULER_CONFIG": written})


@pytest.mark.fact("O-2")
def test_a_flag_overrides_its_variable() -> None:
    environ = NAME | {"PACKING_CANDIDATES": "3"}
    assert read(environ, packing_candidates="5").app.planning.packing_candidates == 5


def test_unset_settings_have_their_defaults() -> None:
    found = read()
    assert found == Program(app=found.app)
    assert found.app == settings.Settings(cluster_name="blue", election=found.app.election)
    assert found.app.election is not None
    assert found.app.election.name == "holdfast-leader-election"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("JobSet", {"JobSet"}),
        ("LeaderWorkerSet, JobSet", {"JobSet", "LeaderWorkerSet"}),
        ("none", set()),
        ("", {"JobSet", "LeaderWorkerSet"}),
    ],
)
def test_the_sources_of_gangs_are_a_list_or_none(written: str, expected: set[str]) -> None:
    assert read(gangs_of=written).app.planning.gangs_of == expected


@pytest.mark.fact("O-2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feature-gates", "ReservedCapacity"),
        ("batch-idle-duration", "soon"),
        ("preference-policy", "Maybe"),
        ("packing-candidates", "-1"),
        ("isolated-vpc", "yes"),
        ("log-level", "loud"),
        ("metrics-port", "65536"),
        ("vm-memory-overhead-percent", "nan"),
        ("cluster-endpoint", "example.com"),
        ("service-cidr", "10.0.0.1/16"),
        ("bind-address", "localhost"),
        ("kube-client-qps", "0"),
        ("kube-client-burst", "0"),
        ("kube-client-qps", "-5"),
        ("kube-client-burst", "1" + "0" * 30),
        ("packing-candidates", "٣"),
        ("ledger-lag", "99999999h"),
        ("aws-region", "us_west_2"),
        ("cluster-endpoint", "https://x:70000"),
        ("gangs-of", "Job"),
        ("gangs-of", "JobSet,"),
        ("gangs-of", "none,JobSet"),
    ],
)
def test_an_invalid_setting_is_rejected_with_the_name_of_its_flag_or_variable(name: str, value: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^--{name}: '{value}' is"):
        settings.read({name: value}, NAME)
    variable = name.upper().replace("-", "_")
    with pytest.raises(errors.InvalidInput, match=f"^{variable}: '{value}' is"):
        settings.read({}, NAME | {variable: value})


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"])
def test_an_invalid_aws_endpoint_variable_is_rejected(variable: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{variable}: 'nonsense' is not an address"):
        settings.read({}, NAME | {variable: "nonsense"})
    assert settings.read({}, NAME | {variable: "http://127.0.0.1:4566"}).app.cluster_name == "blue"


def test_a_long_value_is_truncated_in_the_error() -> None:
    with pytest.raises(errors.InvalidInput) as found:
        read(kube_client_qps="9" * 5000)
    assert len(str(found.value)) < 200


def test_cluster_name_is_required() -> None:
    with pytest.raises(errors.InvalidInput, match=r"^--cluster-name: required"):
        settings.read({}, {})


@pytest.mark.fact("aws-10.2")
def test_karpenter_settings_without_effect_are_accepted_and_listed() -> None:
    environ = NAME | {"LOG_OUTPUT_PATHS": "stdout", "KARPENTER_SERVICE": ""}
    assert read(environ, memory_limit="-1").without_effect == ("log-output-paths", "memory-limit")


KARPENTER_DEFAULTS = {
    "BATCH_IDLE_DURATION": "1s",
    "BATCH_MAX_DURATION": "10s",
    "CLUSTER_CA_BUNDLE": "",
    "CLUSTER_ENDPOINT": "",
    "CLUSTER_NAME": "",
    "DISABLE_DRY_RUN": "false",
    "DISABLE_LEADER_ELECTION": "false",
    "HEALTH_PROBE_PORT": "8081",
    "INTERRUPTION_QUEUE": "",
    "ISOLATED_VPC": "false",
    "LEADER_ELECTION_NAMESPACE": "",
    "LOG_LEVEL": "info",
    "METRICS_PORT": "8080",
    "MIN_VALUES_POLICY": "Strict",
    "PREFERENCE_POLICY": "Respect",
    "RESERVED_ENIS": "0",
    "VM_MEMORY_OVERHEAD_PERCENT": "0.075",
}
OTHER_DEFAULTS = {"KUBE_CLIENT_BURST", "KUBE_CLIENT_QPS", "LEADER_ELECTION_NAME", "FEATURE_GATES"}
ACCEPTED = {
    "AMI_REFRESH_INTERVAL",
    "AWS_FEATURE_GATES",
    "CPU_REQUESTS",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "DISABLE_CONTROLLER_WARMUP",
    "EKS_CONTROL_PLANE",
    "ENABLE_PROFILING",
    "ENABLE_ZONAL_SHIFT",
    "IGNORE_DRA_REQUESTS",
    "KARPENTER_SERVICE",
    "LOG_ERROR_OUTPUT_PATHS",
    "LOG_OUTPUT_PATHS",
    "MEMORY_LIMIT",
    "SUBNET_REFRESH_INTERVAL",
}


@pytest.mark.fact("aws-10.2")
def test_karpenter_variables_have_karpenters_defaults_unless_listed() -> None:
    defaults = {setting.name.upper().replace("-", "_"): setting.default for setting in settings.TABLE}
    assert KARPENTER_DEFAULTS.items() <= defaults.items()
    assert set(defaults) >= OTHER_DEFAULTS
    assert {name.lower().replace("_", "-") for name in ACCEPTED} <= set(settings.WITHOUT_EFFECT)


def test_no_setting_is_in_the_table_twice() -> None:
    names = [setting.name for setting in settings.TABLE] + list(settings.WITHOUT_EFFECT)
    assert sorted(names) == sorted(set(names))
