"""Default topology spread constraints of the cluster, for pods that have none."""

from typing import Any

import pytest

from builders import nodepool
from holdfast import errors, names
from holdfast.api import scheduler_config
from holdfast.api.cluster import Service
from holdfast.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import TopologySpread
from holdfast.state.conversion import default_spreads, pod_shapes
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import PodContext
from holdfast.state.conversion.pods import PodConverter
from objects import NOW_S, deployment, owned, pod, read
from scenarios import built, instance_type, offering

CONFIG: dict[str, Any] = {
    "podTopologySpread": {
        "defaultConstraints": [
            {"maxSkew": 2, "topologyKey": names.ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
            {"maxSkew": 5, "topologyKey": names.HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
        ]
    }
}
DO_NOT_SCHEDULE = {"maxSkew": 1, "topologyKey": names.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
CONSTRAINTS = [
    pod_shapes.spread(c) for c in scheduler_config.read(CONFIG).pod_topology_spread.default_constraints
]


def service(name: str, namespace: str = "default", **selector: str) -> Service:
    return read(Service, name, {"namespace": namespace}, spec={"selector": selector})


def controlled_by(kind: str, name: str, api_version: str = "apps/v1") -> dict[str, Any]:
    meta = owned(kind, name, api_version)
    meta["ownerReferences"][0]["controller"] = True
    return meta


REPLICA_SET = read(
    ReplicaSet, "web-5f", {"namespace": "default"}, spec={"selector": {"matchLabels": {"app": "web"}}}
)
STATEFUL_SET = read(
    StatefulSet,
    "db",
    {"namespace": "default"},
    spec={"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}},
)
REPLICATION_CONTROLLER = read(
    ReplicationController, "old", {"namespace": "default"}, spec={"selector": {"app": "old"}}
)


def converter(*services: Service, **more: Any) -> PodConverter:
    controllers = (REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)
    known = default_spreads.defaults(more.get("constraints", CONSTRAINTS), services, controllers)
    return PodConverter(LabelRules(WELL_KNOWN_LABELS), PodContext(spreads=known))


def spreads(meta: dict[str, Any], *services: Service, **spec: Any) -> tuple[TopologySpread, ...]:
    view, _ = converter(*services).view(pod("p", meta, **spec), now_s=NOW_S)
    return view.shape.spreads


def selects(found: tuple[TopologySpread, ...], **labels: str) -> bool:
    assert found
    assert all(one.selector is not None for one in found)
    return all(one.selector is not None and one.selector.matches(labels) for one in found)


@pytest.mark.fact("S-85")
def test_a_pod_without_constraints_gets_the_default_constraints() -> None:
    zone, host = spreads(controlled_by("ReplicaSet", "web-5f") | {"labels": {"app": "web"}})
    assert (zone.key, zone.max_skew, zone.required, zone.min_domains) == (names.ZONE, 2, True, 3)
    assert (host.key, host.max_skew, host.required, host.min_domains) == (names.HOSTNAME, 5, False, None)


@pytest.mark.fact("S-85")
def test_a_pod_with_its_own_constraint_gets_no_default_constraints() -> None:
    own = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    (one,) = spreads(controlled_by("ReplicaSet", "web-5f"), topologySpreadConstraints=[own])
    assert one.key == "rack"


@pytest.mark.fact("S-85")
@pytest.mark.parametrize(
    ("kind", "name", "api_version", "app"),
    [
        ("ReplicaSet", "web-5f", "apps/v1", "web"),
        ("StatefulSet", "db", "apps/v1", "db"),
        ("ReplicationController", "old", "v1", "old"),
    ],
)
def test_a_default_constraint_selects_the_pods_of_the_controller(
    kind: str, name: str, api_version: str, app: str
) -> None:
    found = spreads(controlled_by(kind, name, api_version))
    assert selects(found, app=app)
    assert not selects(found, app="other")


@pytest.mark.fact("S-85")
def test_a_default_constraint_selects_pods_that_match_services_and_controller() -> None:
    meta = controlled_by("ReplicaSet", "web-5f") | {"labels": {"app": "web", "tier": "front"}}
    found = spreads(
        meta, service("a", tier="front"), service("b", tier="back"), service("c", "other", app="x")
    )
    assert selects(found, app="web", tier="front")
    assert not selects(found, app="web")
    only_services = spreads({"labels": {"tier": "front"}}, service("a", tier="front"))
    assert selects(only_services, tier="front")


@pytest.mark.fact("S-85")
@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"app": "web"}},
        controlled_by("ReplicaSet", "unknown"),
        owned("ReplicaSet", "web-5f"),  # an owner that is not the controller
        controlled_by("ReplicaSet", "web-5f") | {"namespace": "other"},
    ],
)
def test_a_pod_that_no_service_or_controller_selects_gets_no_constraint(meta: dict[str, Any]) -> None:
    assert not spreads(meta, service("a"), service("b", app="elsewhere"))


def test_pods_of_different_controllers_have_different_shapes() -> None:
    pod_converter = converter()
    first, _ = pod_converter.view(pod("a", controlled_by("ReplicaSet", "web-5f")), now_s=NOW_S)
    second, _ = pod_converter.view(pod("b", controlled_by("StatefulSet", "db")), now_s=NOW_S)
    assert first.shape.spreads != second.shape.spreads
    assert (
        first.shape
        is pod_converter.view(pod("c", controlled_by("ReplicaSet", "web-5f")), now_s=NOW_S)[0].shape
    )


def test_a_pod_is_converted_again_when_services_or_defaults_change() -> None:
    one = pod("a", {"labels": {"app": "web"}})
    pod_converter = converter(constraints=())
    assert not pod_converter.view(one, now_s=NOW_S)[0].shape.spreads
    pod_converter.use(PodContext(spreads=default_spreads.defaults(CONSTRAINTS)))
    assert not pod_converter.view(one, now_s=NOW_S)[0].shape.spreads
    pod_converter.use(PodContext(spreads=default_spreads.defaults(CONSTRAINTS, [service("a", app="web")])))
    assert selects(pod_converter.view(one, now_s=NOW_S)[0].shape.spreads, app="web")


@pytest.mark.fact("S-85")
def test_a_plan_spreads_a_deployment_over_zones_by_the_default_constraint() -> None:
    def zones(**spec: Any) -> list[str]:
        web = deployment("web", 3, selector={"matchLabels": {"app": "web"}})
        types = [instance_type(offerings=[offering(f"us-west-2{z}") for z in "abc"])]
        plan = solve(built(nodepool(), web, instanceTypes=types, **spec).request)
        return sorted(claim.zone for claim in plan.claims for _ in claim.pods)

    config = {"podTopologySpread": {"defaultConstraints": [DO_NOT_SCHEDULE]}}
    assert zones(schedulerConfig=config) == ["us-west-2a", "us-west-2b", "us-west-2c"]
    assert len(set(zones())) < 3


def constraints(*found: dict[str, Any]) -> dict[str, Any]:
    return {"podTopologySpread": {"defaultConstraints": list(found)}}


@pytest.mark.fact("O-3")
def test_one_topology_key_may_be_required_and_preferred() -> None:
    both = constraints(DO_NOT_SCHEDULE, DO_NOT_SCHEDULE | {"whenUnsatisfiable": "ScheduleAnyway"})
    assert len(scheduler_config.read(both).pod_topology_spread.default_constraints) == 2


@pytest.mark.fact("O-3")
@pytest.mark.parametrize(
    "wrong",
    [
        {
            "podTopologySpread": {
                "defaultConstraints": [
                    {"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            }
        },
        {"podTopologySpread": {"defaultConstraint": []}},
        {
            "podTopologySpread": {
                "defaultConstraints": [
                    CONFIG["podTopologySpread"]["defaultConstraints"][0] | {"labelSelector": {}}
                ]
            }
        },
        {"other": {}},
        constraints(DO_NOT_SCHEDULE | {"matchLabelKeys": ["app"]}),
        constraints(DO_NOT_SCHEDULE | {"topologyKey": "not a key"}),
        constraints(DO_NOT_SCHEDULE | {"whenUnsatisfiable": "Perhaps"}),
        constraints(DO_NOT_SCHEDULE, DO_NOT_SCHEDULE | {"maxSkew": 2}),
    ],
)
def test_an_invalid_scheduler_configuration_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput, match="scheduler configuration"):
        scheduler_config.read(wrong)
