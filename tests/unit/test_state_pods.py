"""Conversion of pods to shapes, the fields that decide where a pod may run, and reasons to reject a pod."""

import itertools
import random
from typing import Any

import pytest

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.model import requirements, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape, PodTerm, PodView
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Expression, Operator
from holdfast.model.selectors import LabelSelector
from holdfast.model.taints import Effect, Toleration, TolerationOperator
from holdfast.state.conversion import pod_states
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import PodContext
from holdfast.state.conversion.pods import PodConverter
from objects import AN_HOUR_AGO, NOW_S, container, owned, pod

RULES = LabelRules(WELL_KNOWN_LABELS, {"topology.ebs.csi.aws.com/zone": names.ZONE})
NAMESPACES = {"default": {"env": "prod"}, "dev": {"env": "dev"}, "test": {"env": "dev"}}


def converter() -> PodConverter:
    return PodConverter(RULES, PodContext(namespaces=NAMESPACES))


def shape(made: Pod) -> PodShape:
    converted = converter().convert(made)
    assert not converted.problems
    return converted.shape


def problems(made: Pod) -> list[str]:
    found = converter().convert(made).problems
    assert {r.code for r in found} <= {ReasonCode.INVALID, ReasonCode.EXCLUDES_NODE_POOLS}
    return [r.text for r in found]


def view(made: Pod) -> PodView:
    return converter().view(made, now_s=NOW_S)[0]


def required_affinity(
    *terms: list[dict[str, Any]], fields: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    wires = [{"matchExpressions": term} for term in terms]
    if fields:
        wires.append({"matchExpressions": [], "matchFields": fields})
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wires}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


# --- Cache ------------------------------------------------------------------------------------------


def test_equal_pods_share_one_shape_regardless_of_map_order() -> None:
    convert = converter().convert
    one = pod("a", {"labels": {"x": "1", "y": "2"}}, nodeSelector={"a": "1", "b": "2"})
    two = pod("b", {"labels": {"y": "2", "x": "1"}}, nodeSelector={"b": "2", "a": "1"})
    assert convert(one).shape is convert(two).shape


def test_volumes_with_random_names_do_not_make_another_shape() -> None:
    convert = converter().convert
    one, two = (pod(n, volumes=[{"name": f"kube-api-access-{n}"}]) for n in ("a", "b"))
    assert convert(one).shape is convert(two).shape


def test_pods_that_differ_only_in_labels_share_their_requests() -> None:
    convert = converter().convert
    one, two = (pod(n, {"labels": {"pod-index": n}}) for n in ("0", "1"))
    assert convert(one).shape.requests is convert(two).shape.requests
    assert [dict(convert(p).shape.labels) for p in (one, two)] == [{"pod-index": "0"}, {"pod-index": "1"}]


@pytest.mark.parametrize("seed", range(5))
def test_equal_shapes_are_one_object_and_are_those_of_a_new_converter(seed: int) -> None:
    """Whatever the order in which sizes, labels and selectors come, and however a size is written."""
    spread = {
        "maxSkew": 1,
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": ["app"],
    }
    made = [
        pod(
            f"p-{number}",
            {"labels": {"app": app, **({"index": str(number)} if own_label else {})}},
            containers=[{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            nodeSelector=selector,
            topologySpreadConstraints=[spread] if spreads else [],
        )
        for number, (app, cpu, selector, own_label, spreads) in enumerate(
            itertools.product(
                "ab",
                ("1", "1000m", "2", "250m", 1),
                ({}, {"x": "1", "y": "2"}, {"y": "2", "x": "1"}),
                (False, True),
                (False, True),
            )
        )
    ]
    random.Random(seed).shuffle(made)
    pod_converter = converter()
    shapes = [pod_converter.convert(one).shape for one in made]
    assert shapes == [converter().convert(one).shape for one in made]
    assert len({id(shape) for shape in shapes}) == len(set(shapes))


def test_labels_in_match_label_keys_are_not_shared_between_pods() -> None:
    convert = converter().convert
    spread = {
        "maxSkew": 1,
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["rev"],
    }
    shapes = [
        convert(pod(n, {"labels": {"rev": n}}, topologySpreadConstraints=[spread])).shape for n in ("a", "b")
    ]
    selected = [s.spreads[0].selector for s in shapes]
    assert selected == [LabelSelector((Expression("rev", Operator.IN, (n,)),)) for n in ("a", "b")]


def test_the_cache_of_the_converter_is_bounded() -> None:
    small = PodConverter(RULES, remembered_max=4)
    for n in range(20):
        small.convert(pod(labels := f"p{n}", {"labels": {"n": labels}}))
    assert len(small._known) <= 4
    assert len(small._shapes) <= 4


def test_changed_context_converts_only_dependent_pods_again() -> None:
    pod_converter = converter()
    term = {
        "topologyKey": names.ZONE,
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"env": "dev"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    selecting, plain = pod("a", affinity=affinity), pod("b")
    before = pod_converter.convert(plain)
    assert pod_converter.convert(selecting).shape.affinity[0].namespaces == ("dev", "test")
    pod_converter.use(PodContext(namespaces={"dev": {"env": "dev"}}))
    assert pod_converter.convert(selecting).shape.affinity[0].namespaces == ("dev",)
    assert pod_converter.convert(plain) is before


# --- Resources --------------------------------------------------------------------------------------


def requests(**spec: Any) -> dict[str, int]:
    status = spec.pop("status", None)
    return dict(shape(pod(status=status, **spec)).requests.amounts)


@pytest.mark.fact("S-53")
def test_requests_are_what_kube_scheduler_counts() -> None:
    sidecar = container("side", cpu="100m") | {"restartPolicy": "Always"}
    got = requests(
        containers=[container("a", cpu="500m", memory="1Gi"), container("b", cpu="250m")],
        initContainers=[sidecar, container("init", cpu="2", memory="100Mi")],
        overhead={"cpu": "10m"},
    )
    assert got == {"cpu": 2110, "memory": 1 << 30, "pods": 1}


@pytest.mark.fact("S-53")
def test_pod_level_requests_replace_the_sum_of_the_containers() -> None:
    whole = {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "2Gi"}}
    got = requests(containers=[container(cpu="1")], resources=whole)
    assert got == {"cpu": 3000, "memory": 2 << 30, "pods": 1}


@pytest.mark.fact("S-53")
def test_during_a_resize_the_largest_of_desired_allocated_and_actual_requests_counts() -> None:
    reported = {
        "name": "main",
        "allocatedResources": {"cpu": "2"},
        "resources": {"requests": {"cpu": "1500m"}},
    }
    grown = container(cpu="4")
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    status: dict[str, Any] = {"containerStatuses": [reported]}
    assert requests(containers=[grown], status=status)["cpu"] == 4000
    assert requests(containers=[grown], status=status | {"conditions": [infeasible]})["cpu"] == 2000


def test_a_limit_without_a_request_counts_as_the_request() -> None:
    assert requests(containers=[container(limits={"cpu": "2", "memory": "1Gi"}, cpu="1")]) == {
        "cpu": 1000,
        "memory": 1 << 30,
        "pods": 1,
    }


# --- Requirements of the node -----------------------------------------------------------------------


def test_node_selector_and_terms_become_requirements_with_label_aliases_resolved() -> None:
    got = shape(
        pod(
            nodeSelector={"beta.kubernetes.io/arch": "arm64"},
            affinity=required_affinity(
                [expression("topology.ebs.csi.aws.com/zone", "In", "a")], [expression("cpus", "Gt", "3")]
            ),
        )
    )
    assert got.node_selector.get(names.ARCH).values == {"arm64"}
    assert [str(term) for term in got.required_terms] == [f"{names.ZONE} In [a]", "cpus Exists >=4"]


def test_an_empty_node_selector_term_matches_no_node() -> None:
    assert len(shape(pod(affinity=required_affinity([], [expression("a", "Exists")]))).required_terms) == 1
    assert problems(pod(affinity=required_affinity([])))


def test_a_preferred_term_that_no_node_can_satisfy_is_ignored() -> None:
    def preferred(weight: int, **preference: Any) -> dict[str, Any]:
        return {"weight": weight, "preference": preference}

    preferred_terms = [
        preferred(1, matchExpressions=[expression("a", "In", "x")]),
        preferred(2, matchExpressions=[expression("a", "Gt", "many")]),
        preferred(3, matchFields=[expression("metadata.name", "In", "n")]),
    ]
    got = shape(
        pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred_terms}})
    )
    assert [(t.weight, str(t.requirements)) for t in got.preferred_terms] == [(1, "a In [x]")]


def test_tolerations_are_a_set() -> None:
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    anything = {"operator": "Exists"}
    got = shape(pod(tolerations=[gpu, anything, gpu])).tolerations
    assert got == (
        Toleration(operator=TolerationOperator.EXISTS),
        Toleration("gpu", TolerationOperator.EXISTS, effect=Effect.NO_SCHEDULE),
    )


@pytest.mark.fact("S-87")
def test_host_ports_come_from_containers_and_have_normalized_addresses() -> None:
    ports = [
        {"containerPort": 1, "hostPort": 80, "hostIP": "0:0:0:0:0:0:0:1"},
        {"containerPort": 2, "hostPort": 80, "protocol": "UDP"},
        {"containerPort": 3},
    ]
    inits = [container("init") | {"ports": [{"containerPort": 9, "hostPort": 9}]}]
    made = pod(containers=[container() | {"ports": ports}], initContainers=inits)
    assert shape(made).host_ports == (HostPort(80, "TCP", "::1"), HostPort(80, "UDP"))


def test_with_host_network_every_container_port_is_a_host_port() -> None:
    made = pod(containers=[container() | {"ports": [{"containerPort": 53}]}], hostNetwork=True)
    assert shape(made).host_ports == (HostPort(53),)


# --- Topology spread and pod affinity ---------------------------------------------------------------


@pytest.mark.fact("S-80")
def test_match_label_keys_become_part_of_the_selector() -> None:
    written = {
        "maxSkew": 2,
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["rev", "missing"],
        "minDomains": 3,
        "nodeTaintsPolicy": "Honor",
    }
    (spread,) = shape(pod("p", {"labels": {"rev": "7"}}, topologySpreadConstraints=[written])).spreads
    assert spread.selector == LabelSelector(
        (Expression("app", Operator.IN, ("web",)), Expression("rev", Operator.IN, ("7",)))
    )
    assert (spread.max_skew, spread.required, spread.min_domains) == (2, False, 3)


@pytest.mark.fact("S-78")
def test_policies_of_a_spread_default_to_honor_affinity_and_ignore_taints() -> None:
    written = {"maxSkew": 1, "topologyKey": names.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    other = written | {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    default, changed = shape(pod(topologySpreadConstraints=[written, other])).spreads
    assert (default.honors_node_affinity, default.honors_node_taints) == (True, False)
    assert (changed.honors_node_affinity, changed.honors_node_taints) == (False, True)
    assert default.selector is None


@pytest.mark.fact("S-80")
@pytest.mark.parametrize(
    ("written", "namespaces"),
    [
        ({}, ("default",)),
        ({"namespaces": ["b", "a"]}, ("a", "b")),
        ({"namespaceSelector": {"matchLabels": {"env": "dev"}}}, ("dev", "test")),
        ({"namespaceSelector": {"matchLabels": {"env": "dev"}}, "namespaces": ["a"]}, ("a", "dev", "test")),
        ({"namespaceSelector": {}}, ("default", "dev", "test")),
    ],
)
def test_pod_affinity_namespaces_are_listed_selected_or_that_of_the_pod(
    written: dict[str, Any], namespaces: tuple[str, ...]
) -> None:
    term = {"topologyKey": names.HOSTNAME, "labelSelector": {}} | written
    made = pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    assert shape(made).anti_affinity == (PodTerm(names.HOSTNAME, LabelSelector(), namespaces),)


def test_pod_affinity_uses_match_and_mismatch_label_keys() -> None:
    term = {
        "topologyKey": names.ZONE,
        "labelSelector": {"matchExpressions": [expression("app", "Exists")]},
        "matchLabelKeys": ["rev"],
        "mismatchLabelKeys": ["tenant"],
    }
    preferred = [{"weight": 5, "podAffinityTerm": term}]
    made = pod(
        "p",
        {"labels": {"rev": "7", "tenant": "t"}},
        affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
    )
    (got,) = shape(made).preferred_affinity
    assert got.weight == 5
    assert got.term.selector == LabelSelector(
        (
            Expression("app", Operator.EXISTS),
            Expression("rev", Operator.IN, ("7",)),
            Expression("tenant", Operator.NOT_IN, ("t",)),
        )
    )


# --- Rejected pods ----------------------------------------------------------------------------------


@pytest.mark.fact("S-7")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeSelector": {"karpenter.sh/initialized": "true"}}, "restricted domain"),
        ({"nodeSelector": {names.HOSTNAME: "n"}}, "restricted"),
        ({"nodeSelector": {"team": "a b"}}, "team"),
        ({"affinity": required_affinity([expression("a b", "Exists")])}, "key of a label"),
        ({"affinity": required_affinity([expression("a", "Near", "b")])}, "'Near'"),
        ({"affinity": required_affinity([expression("a", "Gt", "b")])}, "exactly one integer"),
        (
            {"affinity": required_affinity([expression(names.CAPACITY_TYPE, "In", "cheap")])},
            "cheap is unknown",
        ),
        ({"affinity": required_affinity(fields=[expression("metadata.name", "In", "n")])}, "matchFields"),
        ({"affinity": required_affinity([expression(names.NODEPOOL, "DoesNotExist")])}, "without the label"),
    ],
)
def test_a_pod_with_requirements_that_no_launched_node_can_meet_is_rejected(
    spec: dict[str, Any], message: str
) -> None:
    found = problems(pod(**spec))
    assert len(found) == 1
    assert message in found[0]


def test_a_running_pod_with_match_fields_fits_no_new_node() -> None:
    by_name = required_affinity(fields=[expression("metadata.name", "In", "n")])
    (term,) = converter().convert(pod(nodeName="n", affinity=by_name)).shape.required_terms
    assert not requirements.NO_REQUIREMENTS.compatible(term, WELL_KNOWN_LABELS)


def test_the_match_fields_of_a_daemonset_pod_do_not_affect_an_equal_pod_without_a_daemonset() -> None:
    by_name = required_affinity(fields=[expression("metadata.name", "In", "n")])
    of_daemon_set = pod(meta=owned("DaemonSet", "logs"), nodeName="n", affinity=by_name)
    alone = pod(nodeName="n", affinity=by_name)
    together = converter()
    shapes = [together.convert(one).shape for one in (of_daemon_set, alone)]
    assert shapes == [converter().convert(one).shape for one in (of_daemon_set, alone)]
    assert shapes[0] != shapes[1]


@pytest.mark.fact("S-7")
def test_a_term_that_excludes_all_nodepools_is_no_reason_if_another_term_does_not() -> None:
    terms = [expression(names.NODEPOOL, "DoesNotExist")], [expression("team", "In", "a")]
    assert len(shape(pod(affinity=required_affinity(*terms))).required_terms) == 2


@pytest.mark.fact("S-9")
def test_a_pod_with_resource_claims_is_rejected() -> None:
    assert "resourceClaims" in problems(pod(resourceClaims=[{"name": "gpu"}]))[0]


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container(cpu="lots")]},
        {"tolerations": [{"operator": "Perhaps"}]},
        {"tolerations": [{"effect": "NoThanks"}]},
        {"containers": [container() | {"ports": [{"hostPort": 1, "hostIP": "localhost"}]}]},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Never"}]},
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "z",
                            "labelSelector": {"matchExpressions": [expression("a", "Gt", "1")]},
                        }
                    ]
                }
            }
        },
    ],
)
def test_an_invalid_field_is_a_reason_and_the_other_fields_are_converted(spec: dict[str, Any]) -> None:
    made = converter().convert(pod("p", {"labels": {"app": "x"}}, nodeSelector={"team": "a"}, **spec))
    assert len(made.problems) == 1
    assert made.shape.labels == (("app", "x"),)
    assert made.shape.node_selector == requirements.from_labels({"team": "a"})
    assert made.shape.requests[resources.PODS] == 1


def test_a_container_port_out_of_range_is_ignored() -> None:
    made = pod(containers=[container() | {"ports": [{"containerPort": 10**30}]}])
    assert shape(made) == shape(pod(containers=[container()]))


def test_all_reasons_of_a_pod_are_reported() -> None:
    made = pod(nodeSelector={names.HOSTNAME: "n"}, tolerations=[{"operator": "Perhaps"}])
    assert len(problems(made)) == 2
    assert converter().view(made, now_s=0)[1][0] == Reason(
        ReasonCode.INVALID,
        f"nodeSelector: label {names.HOSTNAME} is restricted: the node does not exist yet, so its name is not known",
        (names.HOSTNAME,),
    )


# --- State of pods ----------------------------------------------------------------------------------


def test_a_pod_view_has_the_fields_that_disruption_reads() -> None:
    made = pod("p", {"uid": "u1", "creationTimestamp": AN_HOUR_AGO}, nodeName="n")
    got = view(made)
    assert (got.uid, got.full_name, got.created_s, got.node_name) == ("u1", "default/p", NOW_S - 3600, "n")
    assert (got.reschedulable, got.ready, got.from_daemon_set, got.do_not_disrupt) == (
        True,
        True,
        False,
        False,
    )
    assert view(pod("p")).uid == "default/p"


@pytest.mark.fact("S-3")
@pytest.mark.parametrize(
    ("meta", "status", "reschedulable"),
    [
        ({}, {}, True),
        ({}, {"phase": "Succeeded"}, False),
        ({"deletionTimestamp": AN_HOUR_AGO}, {}, False),
        (owned("StatefulSet", "db") | {"deletionTimestamp": AN_HOUR_AGO}, {}, True),
        (owned("DaemonSet", "logs"), {}, False),
        (owned("Node", "n", "v1"), {}, False),
        (owned("DaemonSet", "logs", "other.io/v1"), {}, True),
    ],
)
def test_finished_terminating_daemon_set_and_mirror_pods_are_not_reschedulable(
    meta: dict[str, Any], status: dict[str, Any], *, reschedulable: bool
) -> None:
    assert view(pod("p", meta, status, nodeName="n")).reschedulable is reschedulable


def test_a_pod_view_reports_terminating_and_mirror_pods() -> None:
    terminating = view(pod("p", {"deletionTimestamp": AN_HOUR_AGO}, nodeName="n"))
    mirror = view(pod("p", owned("Node", "n", "v1"), nodeName="n"))
    assert (terminating.terminating, terminating.mirror) == (True, False)
    assert (mirror.terminating, mirror.mirror) == (False, True)


@pytest.mark.parametrize(
    ("value", "started", "blocks"),
    [
        ("true", None, True),
        ("false", None, False),
        ("2h", AN_HOUR_AGO, True),
        ("1h", AN_HOUR_AGO, False),
        ("30m", None, True),
        ("-1h", None, False),
        ("0s", None, False),
        ("soon", None, False),
    ],
)
def test_do_not_disrupt_holds_forever_or_for_a_duration_after_the_start(
    value: str, started: str | None, *, blocks: bool
) -> None:
    made = pod("p", {"annotations": {names.DO_NOT_DISRUPT: value}}, {"startTime": started})
    assert view(made).do_not_disrupt is blocks


UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.mark.fact("S-1", "S-2")
@pytest.mark.parametrize(
    ("meta", "status", "spec", "provisionable"),
    [
        ({}, UNSCHEDULABLE, {}, True),
        ({}, {}, {}, False),
        ({}, {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Other"}]}, {}, False),
        ({}, UNSCHEDULABLE, {"nodeName": "n"}, False),
        ({}, UNSCHEDULABLE | {"nominatedNodeName": "n"}, {}, False),
        (owned("DaemonSet", "logs"), UNSCHEDULABLE, {}, False),
        (owned("Node", "n", "v1"), UNSCHEDULABLE, {}, False),
    ],
)
def test_a_pod_is_provisionable_once_kube_scheduler_marks_it_unschedulable(
    meta: dict[str, Any], status: dict[str, Any], spec: dict[str, Any], *, provisionable: bool
) -> None:
    assert pod_states.is_provisionable(pod("p", meta, status, **spec)) is provisionable


def test_a_pod_with_a_scheduling_gate_does_not_await_a_node() -> None:
    assert pod_states.awaits_node(pod())
    assert not pod_states.awaits_node(pod(schedulingGates=[{"name": "quota"}]))
