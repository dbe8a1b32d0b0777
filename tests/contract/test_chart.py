"""The chart holdfast, rendered with a real helm: values, settings, security, metrics and errors."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import charts
import generate_chart_readme
import git_version
from holdfast.api import documents
from holdfast.app import declared_metrics, settings
from holdfast.runtime import metrics

FILES: Final = ("defaults", "everything", "karpenter")
CLUSTER: Final = {"CLUSTER_NAME": "demo"}
# Settings that are not below `settings`, with their value; None: not in the chart.
ELSEWHERE: Final[Mapping[str, str | None]] = {
    "log-level": "logLevel",
    "log-format": "logFormat",
    "metrics-port": "controller.metrics.port",
    "health-probe-port": "controller.healthProbe.port",
    "api-port": "controller.api.port",
    "api-bind-address": None,  # `controller.api.enabled` sets it
    "dashboard": "controller.api.dashboard",
    "kubeconfig": None,  # the pod uses its service account
    "context": None,
    "bind-address": None,  # the kubelet must reach the probes
}
SPELLING: Final = {"enis": "ENIs"} | {
    word: word.upper() for word in ["ca", "cidr", "cpu", "dns", "ip", "qps", "vpc"]
}


def value_name(setting: str) -> str:
    """Where a setting is in the values: `settings.clusterDNSIP` for `cluster-dns-ip`."""
    first, *words = setting.split("-")
    return "settings." + first + "".join(SPELLING.get(word, word.capitalize()) for word in words)


IN_CHART: Final = {
    one: name for one in settings.TABLE if (name := ELSEWHERE.get(one.name, value_name(one.name))) is not None
}


def chart_values() -> dict[str, Any]:
    (document,) = documents.read((charts.CHART / "values.yaml").read_bytes())
    assert isinstance(document, documents.Document)
    values: dict[str, Any] = document.value
    return values


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((charts.CHART / "values.schema.json").read_text())
    return found


def value(values: Any, name: str) -> Any:
    for key in name.split("."):
        values = values[key]
    return values


def text(written: Any) -> str:
    return json.dumps(written) if isinstance(written, (bool, int, float)) else str(written)


@pytest.fixture(scope="module", params=FILES)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return charts.render(request.param)


@pytest.fixture(scope="module")
def defaults() -> list[dict[str, Any]]:
    return charts.render("defaults")


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return charts.render("everything")


@pytest.fixture(scope="module")
def karpenter() -> list[dict[str, Any]]:
    return charts.render("karpenter")


# --- The chart as a whole -----------------------------------------------------------------------------


@pytest.mark.parametrize("values", FILES)
def test_helm_lint_reports_no_error_and_no_warning(values: str) -> None:
    done = charts.helm("lint", "--strict", charts.CHART, "--values", charts.VALUES / f"{values}.yaml")
    assert (done.code, "[WARNING]" in done.out, "[ERROR]" in done.out) == (0, False, False), done


def test_versions_are_those_of_a_source_tree() -> None:
    version = git_version.UNKNOWN
    for chart in (charts.CHART, charts.CRD_CHART):
        (found,) = charts.read((chart / "Chart.yaml").read_text())
        assert (found["version"], found["appVersion"]) == (git_version.semver(version), version)


def test_readme_lists_the_values_as_they_are() -> None:
    assert generate_chart_readme.stale() == []


def test_objects_are_complete_and_have_no_secret(objects: list[dict[str, Any]]) -> None:
    keys = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in objects]
    assert len(set(keys)) == len(keys)
    assert "Secret" not in {kind for kind, _, _ in keys}
    for one in objects:
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == charts.RELEASE
        is_cluster_scoped = one["kind"].startswith(("ClusterRole", "ValidatingAdmissionPolicy"))
        assert ("namespace" in one["metadata"]) is not is_cluster_scoped


@pytest.mark.fact("aws-10.3.1")
def test_optional_objects_exist_only_if_enabled(
    defaults: list[dict[str, Any]], everything: list[dict[str, Any]]
) -> None:
    always = {
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }
    assert {one["kind"] for one in defaults} == always
    assert {one["kind"] for one in everything} - always == {
        "ConfigMap",
        "NetworkPolicy",
        "PrometheusRule",
        "ServiceMonitor",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_policy_beside_karpenter_is_for_the_service_account_of_karpenter(
    everything: list[dict[str, Any]],
) -> None:
    policy = charts.only(everything, "ValidatingAdmissionPolicy")
    binding = charts.only(everything, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    account = "system:serviceaccount:autoscalers:karpenter-main"
    assert policy["spec"]["matchConditions"][0]["expression"] == f'request.userInfo.username == "{account}"'


def test_every_selector_selects_the_pods_and_not_those_of_another_release(
    everything: list[dict[str, Any]],
) -> None:
    deployment = charts.only(everything, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    service = charts.only(everything, "Service")
    selectors = [
        deployment["selector"]["matchLabels"],
        service["spec"]["selector"],
        charts.only(everything, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        charts.only(everything, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert all(selector["app.kubernetes.io/instance"] == charts.RELEASE for selector in selectors)
    monitored = charts.only(everything, "ServiceMonitor")["spec"]
    assert monitored["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitored["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


# --- The pod ------------------------------------------------------------------------------------------


@pytest.mark.fact("aws-10.3.1")
def test_container_has_no_privileges_and_karpenters_probes(objects: list[dict[str, Any]]) -> None:
    container = charts.controller(objects)
    context = container["securityContext"]
    assert context == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for probe, path, delay in (("livenessProbe", "/healthz", 30), ("readinessProbe", "/readyz", 5)):
        assert container[probe] == {
            "initialDelaySeconds": delay,
            "timeoutSeconds": 30,
            "httpGet": {"path": path, "port": "http"},
        }
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    environment = charts.environment(objects)
    assert ports.pop("http-api", environment["API_PORT"]) == environment["API_PORT"]
    assert ports == {"http-metrics": environment["METRICS_PORT"], "http": environment["HEALTH_PROBE_PORT"]}
    assert container["args"] == ["run"]


def test_two_replicas_can_run_on_one_node_and_never_on_nodes_of_nodepools(
    defaults: list[dict[str, Any]],
) -> None:
    """tests/peers/e2e_chart.py updates them on a real control plane with one node and with two."""
    deployment = charts.only(defaults, "Deployment")["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 2
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in pod["affinity"]["podAntiAffinity"]
    assert {one["whenUnsatisfiable"] for one in pod["topologySpreadConstraints"]} == {"ScheduleAnyway"}
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}


def test_terms_without_a_label_selector_select_the_pods(karpenter: list[dict[str, Any]]) -> None:
    deployment = charts.only(karpenter, "Deployment")["spec"]
    pod = deployment["template"]["spec"]
    (required,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (spread,) = pod["topologySpreadConstraints"]
    assert required["labelSelector"] == spread["labelSelector"] == deployment["selector"]


def test_image_is_a_value_with_tag_and_digest(
    defaults: list[dict[str, Any]], everything: list[dict[str, Any]]
) -> None:
    assert charts.controller(defaults)["image"] == f"holdfast:{git_version.UNKNOWN}"
    image = charts.controller(everything)["image"]
    assert re.fullmatch(r"registry\.example\.com/tools/holdfast:v1@sha256:[0-9a-f]{64}", image)


# --- Settings -----------------------------------------------------------------------------------------


@pytest.mark.fact("aws-10.1.3")
def test_default_values_are_the_defaults_of_the_settings(defaults: list[dict[str, Any]]) -> None:
    values = chart_values()
    for setting, name in IN_CHART.items():
        if setting.name == "feature-gates":
            continue
        assert text(value(values, name)) == setting.default, name
    environment = charts.environment(defaults)
    assert environment.pop("API_BIND_ADDRESS") == "all"
    assert settings.read({}, environment) == settings.read({}, CLUSTER)


def test_json_api_is_reachable_only_if_enabled(defaults: list[dict[str, Any]]) -> None:
    disabled = charts.render("defaults", "--set", "controller.api.enabled=false")
    for objects, bind_address, names in ((defaults, "all", {"http-api"}), (disabled, "127.0.0.1", set())):
        (service,) = [one for one in objects if one["kind"] == "Service"]
        assert {port["name"] for port in service["spec"]["ports"]} - {"http-metrics"} == names
        assert charts.environment(objects)["API_BIND_ADDRESS"] == bind_address


@pytest.mark.fact("aws-10.1.4")
def test_default_feature_gates_are_those_of_the_settings() -> None:
    gates = chart_values()["settings"]["featureGates"]
    assert {name[0].upper() + name[1:]: on for name, on in gates.items()} == settings.GATES


def test_chart_has_no_setting_that_the_program_does_not_have() -> None:
    assert {f"settings.{name}" for name in chart_values()["settings"]} == {
        name for name in IN_CHART.values() if name.startswith("settings.")
    }


@pytest.mark.fact("aws-10.1.5")
def test_every_setting_reaches_the_program_also_zero_and_false(everything: list[dict[str, Any]]) -> None:
    environment = charts.environment(everything)
    # Their own values: a template, and one that controller.env sets. A Lease is needed for more than one replica.
    own = {"CLUSTER_NAME": "holdfast-cluster", "BATCH_MAX_DURATION": "30s"}
    not_set = {"DISABLE_LEADER_ELECTION": "false", "CLUSTER_CA_BUNDLE": ""}
    (written,) = charts.read((charts.VALUES / "everything.yaml").read_text())
    for setting, name in IN_CHART.items():
        found = environment.get(setting.variable, "")
        if setting.variable in not_set:
            assert found == not_set[setting.variable]
        elif setting.name in ("feature-gates", "scheduler-config"):
            assert setting.read(found) != setting.read(setting.default or "{}")
        else:
            assert found == own.get(setting.variable, text(value(written, name))), name
            assert found != setting.default, name
    read = settings.read({}, environment)
    assert (read.app.capacity.vm_memory_overhead_percent, read.app.planning.node_cost_nano) == (0, 0)
    assert read.app.scheduler.pod_topology_spread.default_constraints[0].max_skew == 3
    assert read.without_effect == ()


def test_empty_setting_is_left_out_and_a_text_is_passed_on(defaults: list[dict[str, Any]]) -> None:
    assert "CLUSTER_CA_BUNDLE" not in charts.environment(defaults)
    objects = charts.render("defaults", "--set", "settings.clusterCABundle=QQ==,settings.packing=null")
    environment = charts.environment(objects)
    assert environment["CLUSTER_CA_BUNDLE"] == "QQ=="
    assert "PACKING" not in environment


# --- Values of Karpenter ------------------------------------------------------------------------------


@pytest.mark.fact("aws-10.1.1", "aws-10.1.2", "aws-10.1.3", "aws-10.1.4")
def test_values_file_of_karpenter_configures_holdfast(karpenter: list[dict[str, Any]]) -> None:
    read = settings.read({}, charts.environment(karpenter))
    assert (read.app.cluster_name, read.app.interruption_queue, read.region) == ("demo", "demo", "eu-west-1")
    assert (read.log_level, read.app.capacity.vm_memory_overhead_percent) == ("warning", 0.05)
    assert (read.app.disruption.spot_to_spot, read.app.disruption.node_repair) == (True, True)
    assert set(read.without_effect) == {
        "ami-refresh-interval",
        "eks-control-plane",
        "enable-zonal-shift",
        "feature-gates CapacityBuffer",
        "ignore-dra-requests",
        "log-error-output-paths",
        "log-output-paths",
        "subnet-refresh-interval",
    }
    account = charts.only(karpenter, "ServiceAccount")["metadata"]
    assert account["name"] == "karpenter"
    assert account["annotations"]["eks.amazonaws.com/role-arn"].endswith("role/karpenter")
    assert charts.only(karpenter, "PodDisruptionBudget")["metadata"]["name"] == "karpenter"


def test_schema_has_exactly_the_values_of_the_chart_and_karpenters_without_effect() -> None:
    known = set(_schema_names(schema()))
    present = set(_value_names(chart_values()))
    without_effect = {
        "controller.image",  # refused with a message
        "global",
        "logErrorOutputPaths",
        "logOutputPaths",
        *(
            f"settings.{name}"
            for name in (
                "amiRefreshInterval",
                "awsFeatureGates",
                "disableClusterStateObservability",
                "eksControlPlane",
                "enableZonalShift",
                "ignoreDRARequests",
                "subnetRefreshInterval",
            )
        ),
        *(f"settings.featureGates.{gate[0].lower()}{gate[1:]}" for gate in settings.KARPENTER_GATES),
    }
    open_objects = {"affinity", "strategy"}  # their fields are those of Kubernetes

    def own(names: set[str]) -> set[str]:
        return {name for name in names if name.split(".")[0] not in open_objects}

    assert own(known) - own(present) == without_effect
    assert own(present) - own(known) == set()


def _schema_names(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, inner in node.get("properties", {}).items():
        if inner.get("properties") and inner.get("additionalProperties") is False:
            yield from _schema_names(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _value_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    closed = {tuple(name.split(".")[:-1]) for name in _schema_names(schema())}
    for name, inner in values.items():
        if isinstance(inner, dict) and (*prefix.split(".")[:-1], name) in closed:
            yield from _value_names(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


# --- Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("settings.batchIdleDuratoin=1s",), "additional properties 'batchIdleDuratoin' not allowed"),
        (("replica=3",), "additional properties 'replica' not allowed"),
        (("settings.batchIdleDuration=soon",), "at '/settings/batchIdleDuration'"),
        (("settings.packing=cheap",), "at '/settings/packing': value must be one of 'cost', 'karpenter'"),
        (("settings.featureGates.nodeRepare=true",), "additional properties 'nodeRepare' not allowed"),
        (("image.digest=sha256:1",), "at '/image/digest'"),
        (("settings.clusterName=",), "settings.clusterName is required"),
        (("controller.image.tag=1.14.1",), "set image.repository, image.tag or image.digest"),
        (("settings.disableLeaderElection=true",), "Set replicas to 1 and strategy.type to Recreate"),
        (("settings.disableLeaderElection=true", "replicas=1"), "Set replicas to 1 and strategy.type"),
    ],
)
def test_mistake_in_values_is_an_error_with_what_to_do(words: tuple[str, ...], message: str) -> None:
    done = charts.template("--set", ",".join(("settings.clusterName=demo", *words)))
    assert done.code == 1
    assert message in done.err


def test_single_replica_can_run_without_leader_election() -> None:
    chosen = "settings.disableLeaderElection=true,replicas=1,strategy.type=Recreate"
    objects = charts.render("defaults", "--set", chosen)
    assert charts.only(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert [one["metadata"]["name"] for one in objects if one["kind"] == "Role"] == ["holdfast-dns"]


# --- Rights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", ["kube-system", "autoscaling"])
def test_lease_is_in_the_namespace_of_the_release_and_dns_in_kube_system(namespace: str) -> None:
    objects = charts.render("defaults", namespace=namespace)
    for kind in ("Role", "RoleBinding"):
        assert charts.only(objects, kind, "holdfast-lease")["metadata"]["namespace"] == namespace
        assert charts.only(objects, kind, "holdfast-dns")["metadata"]["namespace"] == "kube-system"
    bindings = [one for one in objects if one["kind"].endswith("Binding")]
    subject = {"kind": "ServiceAccount", "name": "holdfast", "namespace": namespace}
    assert [one["subjects"] for one in bindings] == [[subject]] * 3


def test_lease_of_the_settings_is_the_lease_of_the_role(everything: list[dict[str, Any]]) -> None:
    role = charts.only(everything, "Role", "holdfast-lease")
    environment = charts.environment(everything)
    assert role["metadata"]["namespace"] == environment["LEADER_ELECTION_NAMESPACE"] == "leases"
    named = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
    assert named == [[environment["LEADER_ELECTION_NAME"]]] == [["demo-leader-election"]]


@pytest.mark.fact("aws-10.3.4")
def test_admins_may_change_the_kinds_of_holdfast_and_viewers_may_not(
    defaults: list[dict[str, Any]], everything: list[dict[str, Any]]
) -> None:
    admin = charts.only(defaults, "ClusterRole", "holdfast-admin")
    view = charts.only(defaults, "ClusterRole", "holdfast-view")
    kinds = {"nodepools", "nodeclaims", "ec2nodeclasses", "holdfastnodeclasses"}
    for role in (admin, view):
        assert {resource for rule in role["rules"] for resource in rule["resources"]} == kinds
    assert admin["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    assert label not in view["metadata"]["labels"]
    assert charts.only(everything, "ClusterRole", "holdfast-view")["metadata"]["labels"][label] == "true"


# --- CRDs ---------------------------------------------------------------------------------------------


@pytest.mark.fact("aws-10.3.5")
def test_crds_of_both_charts_are_the_same() -> None:
    plain = {}
    for path in sorted((charts.CHART / "crds").glob("*.yaml")):
        (crd,) = charts.read(path.read_text())
        plain[crd["metadata"]["name"]] = crd
    rendered = {one["metadata"]["name"]: one for one in charts.render(chart=charts.CRD_CHART)}
    for crd in rendered.values():
        assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert crd["metadata"].pop("labels")["app.kubernetes.io/managed-by"] == "Helm"
    assert rendered == plain
    assert len(plain) == 4


def test_crds_can_be_deleted_with_the_release_if_the_user_says_so() -> None:
    chosen = "keep=false,additionalAnnotations.a=b"
    (annotations,) = {
        tuple(one["metadata"]["annotations"].items())
        for one in charts.render("", "--set", chosen, chart=charts.CRD_CHART)
    }
    assert annotations == (("a", "b"),)


# --- Metrics ------------------------------------------------------------------------------------------

PROMQL_WORDS: Final = frozenset(
    {"abs", "absent", "and", "by", "histogram_quantile", "increase", "max", "on", "or", "rate", "sum", "time"}
)
OF_PROMETHEUS: Final = {"job", "namespace", "pod", "le"}  # labels that a scrape or a histogram adds
DECLARED: Final = {one.name: one for one in (*metrics.ENGINE, *declared_metrics.METRICS)}


def expressions(objects: list[dict[str, Any]]) -> list[str]:
    (group,) = charts.only(objects, "PrometheusRule")["spec"]["groups"]
    dashboard = json.loads(charts.only(objects, "ConfigMap")["data"]["holdfast.json"])
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return [rule["expr"] for rule in group["rules"]] + [target["expr"] for target in targets]


def test_alerts_and_dashboard_use_metrics_and_labels_that_exist(everything: list[dict[str, Any]]) -> None:
    found = expressions(everything)
    assert len(found) > 30
    used: set[str] = set()
    for expression in found:
        bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
        words = set(re.findall(r"\b[a-z_][a-z_0-9]*\b", bare)) - PROMQL_WORDS
        names = {
            word
            for word in words
            if re.fullmatch(r"(karpenter|holdfast|controller|workqueue|leader|operator|process)_\w+", word)
        }
        labels = words - names - OF_PROMETHEUS
        assert names, expression
        allowed: set[str] = set()
        for name in names:
            if name.startswith("process_"):
                assert name == "process_resident_memory_bytes"
                continue
            metric = DECLARED[name.removesuffix("_bucket")]
            assert name.endswith("_bucket") == (metric.kind == "histogram"), name
            assert ("rate(" in expression or "increase(" in expression) == (metric.kind != "gauge"), name
            allowed |= set(metric.labels)
        assert labels <= allowed, (expression, labels - allowed)
        used |= names
    assert {"holdfast_reservation_free_slots", "leader_election_master_status"} <= used


def test_alerts_select_the_metrics_of_the_release_alone(everything: list[dict[str, Any]]) -> None:
    (group,) = charts.only(everything, "PrometheusRule")["spec"]["groups"]
    for rule in group["rules"]:
        selectors = re.findall(r"\{[^}]*\}", rule["expr"])
        assert selectors
        assert all('job="holdfast",namespace="autoscaling"' in one for one in selectors)
        assert rule["labels"]["team"] == "platform"
    text = json.dumps(group)
    assert not re.search(r"MATCHERS|SLOTS_IDLE_FOR|CLOCK_OFFSET_SECONDS", text)
    (idle,) = [rule for rule in group["rules"] if rule["alert"] == "HoldfastReservedSlotsIdle"]
    assert idle["for"] == "6h"


def test_install_page_lists_the_alerts_and_their_severities(everything: list[dict[str, Any]]) -> None:
    page = (charts.ROOT / "docs/install.md").read_text()
    listed = re.findall(r"^\| `(Holdfast\w+)` \| (\w+) \|", page, re.MULTILINE)
    (group,) = charts.only(everything, "PrometheusRule")["spec"]["groups"]
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in group["rules"]]


def test_pages_install_the_image_that_they_build() -> None:
    """The chart of a checkout has no version, so the values file of the install page has to set the tag."""
    install, doctor, readme = (
        (charts.ROOT / page).read_text(encoding="utf-8")
        for page in ("docs/install.md", "docs/doctor.md", "README.md")
    )
    (tag,) = set(re.findall(r"amazonaws\.com/holdfast:(\S+?)['\s]", install + doctor + readme))
    assert re.findall(r"^  tag: (\S+)$", install, re.MULTILINE) == [tag]
    assert f"--set image.tag={tag}" in readme


def test_dashboard_has_distinct_panels_with_a_data_source(everything: list[dict[str, Any]]) -> None:
    dashboard = json.loads(charts.only(everything, "ConfigMap")["data"]["holdfast.json"])
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all("datasource" in panel for panel in panels if panel["type"] != "row")
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))


def test_notes_state_what_to_do_next_and_that_nodes_keep_running(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    values = charts.VALUES / "defaults.yaml"
    words = ("install", "holdfast", charts.CHART, "--dry-run=client", "--values", values)
    notes = charts.helm(*words, environ=environ).out.partition("NOTES:")[2]
    assert "rollout status deployment/holdfast" in notes
    assert "EKS Pod Identity" in notes
    assert "nodes keep running" in notes
