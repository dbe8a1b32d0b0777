"""From manifests and a Catalog to a SolveRequest: the pods of workloads, and what each EC2NodeClass may launch."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from builders import ec2nodeclass, nodepool
from holdfast import errors, names
from holdfast.api import aws, storage
from holdfast.api.cluster import Namespace
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.findings import text_of
from holdfast.api.scenario import Settings as WireSettings
from holdfast.core.scheduling.input.request import Packing, Settings
from holdfast.model import gangs, offerings, requirements, resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.reasons import ReasonCode
from holdfast.model.reservations import State
from holdfast.scenarios import scenario
from holdfast.scenarios.catalog import Listed
from objects import (
    NOW_S,
    budget,
    claim,
    container,
    daemonset,
    deployment,
    job,
    node,
    nodeclaim,
    owned,
    pod,
    read,
    replicaset,
    statefulset,
    storage_class,
)
from scenarios import built, catalog, instance_type, offering, reservation, wrong


def types(*objects: Any, **spec: Any) -> dict[str, InstanceType]:
    (pool,) = built(nodepool(), *objects, **spec).request.snapshot.node_pools
    return {t.name: t for t in pool.instance_types}


def reserved(*objects: Any, **spec: Any) -> dict[str, Offering]:
    found = [o for t in types(*objects, **spec).values() for o in t.offerings]
    return {o.reservation_id: o for o in found if o.reservation_id is not None}


def pending(*objects: Any) -> list[str]:
    return [p.uid for p in built(*objects).request.snapshot.pending]


def messages(*objects: Any, **spec: Any) -> list[str]:
    return [f"{text_of(w.finding.path)}: {w.finding.message}" for w in wrong(*objects, **spec)]


# --- Workloads --------------------------------------------------------------------------------------


def test_workloads_are_expanded_to_their_replicas() -> None:
    got = pending(deployment("web", 3), statefulset("db", 2), job("batch", parallelism=2), replicaset("rs"))
    assert got == [
        "default/batch-0",
        "default/batch-1",
        "default/db-0",
        "default/db-1",
        "default/rs-0",
        "default/web-0",
        "default/web-1",
        "default/web-2",
    ]


def test_existing_pods_of_a_workload_are_not_added_again() -> None:
    by_set = owned("Deployment", "web")
    revision = {"labels": {"pod-template-hash": "5d4f"}}
    objects = [
        deployment("web", 4),
        replicaset("web-5d4f", 4, by_set),
        pod("web-5d4f-aaaaa", owned("ReplicaSet", "web-5d4f") | revision, nodeName="n"),
        pod("web-5d4f-bbbbb", owned("ReplicaSet", "web-5d4f") | revision),
        pod("web-5d4f-ddddd", owned("ReplicaSet", "web-5d4f") | revision, {"phase": "Failed"}, nodeName="n"),
        node("n"),
    ]
    assert pending(*objects) == ["default/web-0", "default/web-1", "default/web-5d4f-bbbbb"]


def test_a_replica_set_without_a_manifest_is_found_by_its_name() -> None:
    meta = owned("ReplicaSet", "web-5d4f") | {"labels": {"pod-template-hash": "5d4f"}}
    made = built(deployment("web", 2), pod("web-5d4f-aaaaa", meta)).request.snapshot.pending
    assert [p.name for p in made] == ["web-0", "web-5d4f-aaaaa"]
    assert dict(made[0].shape.labels) == {"app": "web", "pod-template-hash": "5d4f"}


def test_a_stateful_set_adds_only_its_missing_ordinals() -> None:
    existing = pod("db-1", owned("StatefulSet", "db"), nodeName="n")
    assert pending(statefulset("db", 3), existing, node("n")) == ["default/db-0", "default/db-2"]


@pytest.mark.parametrize(
    ("spec", "status", "count"),
    [
        ({}, {}, 1),
        ({"parallelism": 3, "completions": 2}, {}, 2),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 4}, 1),
        ({"parallelism": 3, "suspend": True}, {}, 0),
    ],
)
def test_a_job_adds_only_its_remaining_pods(spec: dict[str, Any], status: dict[str, Any], count: int) -> None:
    template = {"spec": {"containers": [container(cpu="1")]}}
    made = read(
        type(job()), "batch", {"namespace": "default"}, spec={"template": template} | spec, status=status
    )
    assert len(pending(made)) == count


def test_volume_claims_of_a_stateful_set_use_the_default_storage_class() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": {}}]
    zone = {"matchLabelExpressions": [{"key": names.ZONE, "values": ["us-west-2b"]}]}
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    where = storage_class("gp3", meta=default, allowedTopologies=[zone])
    got = built(statefulset("db", 2, volumeClaimTemplates=templates), where).request.snapshot.pending
    assert [p.shape.volumes.claims for p in got] == [
        (("ebs.csi.aws.com", "default/data-db-0"),),
        (("ebs.csi.aws.com", "default/data-db-1"),),
    ]
    assert str(got[0].shape.volumes.alternatives[0]) == f"{names.ZONE} In [us-west-2b]"
    assert dict(got[0].shape.labels)["apps.kubernetes.io/pod-index"] == "0"


def test_ephemeral_volumes_add_their_claims_and_an_existing_claim_has_precedence() -> None:
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}
    made = pod("p", volumes=[{"name": "scratch", "ephemeral": template}])
    (got,) = built(made, storage_class()).request.snapshot.pending
    assert got.shape.volumes.claims == (("ebs.csi.aws.com", "default/p-scratch"),)
    other = claim("p-scratch", spec={"storageClassName": "efs"})
    (got,) = built(made, other, storage_class("efs", provisioner="efs")).request.snapshot.pending
    assert got.shape.volumes.claims == (("efs", "default/p-scratch"),)


def test_a_volume_claim_with_a_volume_name_counts_as_bound() -> None:
    made = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    bound = claim("data", spec={"volumeName": "vol"})
    vol = read(storage.PersistentVolume, "vol", spec={"csi": {"driver": "ebs.csi.aws.com"}})
    assert not built(made, bound, vol).rejected


# --- Pods and nodes ---------------------------------------------------------------------------------


def test_namespaces_without_a_manifest_are_selected_too() -> None:
    term = {"topologyKey": names.ZONE, "labelSelector": {}, "namespaceSelector": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [pod("p", affinity=affinity), pod("q", {"namespace": "other"}), read(Namespace, "empty")]
    first = built(*objects).request.snapshot.pending[0]
    assert first.shape.affinity[0].namespaces == ("default", "empty", "other")


def test_a_rejected_pod_is_not_in_the_request_and_has_its_reasons() -> None:
    got = built(pod("p", nodeSelector={names.HOSTNAME: "n"}))
    assert got.request.snapshot.pending == ()
    assert [(u.pod, u.reasons[0].code) for u in got.rejected] == [("default/p", ReasonCode.INVALID)]


def test_ignored_objects_are_noted() -> None:
    gated = pod("p", schedulingGates=[{"name": "g"}])
    other = nodepool(nodeClassRef={"group": "other.io", "kind": "Klass", "name": "x"})
    notes = built(gated, other).notes
    assert "scheduling gate" in notes[1]
    assert "another autoscaler" in notes[0]
    assert built(gated, other).request.snapshot.node_pools == ()


def test_nodes_claims_daemon_sets_and_budgets_are_in_the_snapshot() -> None:
    got = built(node("n"), nodeclaim("c"), daemonset("logs"), budget("pdb"), now_s=NOW_S).request.snapshot
    assert [len(x) for x in (got.nodes, got.claims, got.daemon_sets, got.budgets)] == [1, 1, 1, 1]
    assert (got.taken_s, got.counts_read_s) == (NOW_S, NOW_S)


# --- The catalog ------------------------------------------------------------------------------------


def test_instance_types_have_their_labels_zones_and_capacity_types() -> None:
    made = instance_type(
        labels={names.ARCH: "amd64", names.OS: ["linux", "windows"]},
        overhead={"cpu": "100m"},
        volumeLimits={"ebs.csi.aws.com": 25},
        offerings=[
            offering("a", "spot", price="0.03", available=7, zoneID="az1"),
            offering("b", price=1, healthy=False),
        ],
    )
    large = types(instanceTypes=[made])["m5.large"]
    assert str(large.requirements) == ", ".join(
        [
            f"{names.CAPACITY_TYPE} In [on-demand spot]",
            f"{names.ARCH} In [amd64]",
            f"{names.OS} In [linux windows]",
            f"{names.INSTANCE_TYPE} In [m5.large]",
            f"{names.ZONE} In [a b]",
        ]
    )
    assert large.allocatable["cpu"] == 1900
    assert large.volume_limits == (("ebs.csi.aws.com", 25),)
    spot, on_demand = large.offerings
    assert (spot.price_nano_usd_per_hour, spot.count, spot.healthy) == (30_000_000, 7, True)
    assert (on_demand.price_nano_usd_per_hour, on_demand.count) == (10**9, offerings.UNLIMITED)
    assert not on_demand.healthy
    assert spot.requirements.get(aws.ZONE_ID).values == {"az1"}


@pytest.mark.fact("R-2")
def test_every_offering_requires_a_value_or_the_absence_of_each_reservation_label() -> None:
    terms = [{"id": "cr-1"}]
    large = types(
        ec2nodeclass(capacityReservationSelectorTerms=terms),
        reservations=[
            reservation(
                "cr-1", type="capacity-block", end="2030-01-01T00:00:00Z", interruptible=True, zoneID="az1"
            )
        ],
    )["m5.large"]
    on_demand, reserved_offering = large.offerings
    none = [str(on_demand.requirements.get(key)) for key in aws.RESERVED_CAPACITY_LABELS]
    assert none == [f"{key} DoesNotExist" for key in aws.RESERVED_CAPACITY_LABELS]
    labels = {r.key: next(iter(r.values)) for r in reserved_offering.requirements}
    assert labels == {
        names.CAPACITY_TYPE: "reserved",
        names.ZONE: "us-west-2a",
        aws.ZONE_ID: "az1",
        aws.CAPACITY_RESERVATION_ID: "cr-1",
        aws.CAPACITY_RESERVATION_TYPE: "capacity-block",
        aws.CAPACITY_RESERVATION_INTERRUPTIBLE: "true",
        aws.INSTANCE_TENANCY: "default",
    }
    assert (reserved_offering.count, reserved_offering.price_nano_usd_per_hour) == (4, 96_000_000)
    assert large.requirements.get(names.CAPACITY_TYPE).values == {"on-demand", "reserved"}


RESERVATIONS = [
    reservation("cr-1", tags={"team": "ml", "env": "prod"}, ownerID="111122223333"),
    reservation("cr-2", tags={"team": "web"}, ownerID="444455556666", instanceMatchCriteria="targeted"),
    reservation("cr-3"),
]
STATUS_ENTRY = {
    "id": "cr-3",
    "availabilityZone": "us-west-2a",
    "instanceType": "m5.large",
    "instanceMatchCriteria": "open",
    "ownerID": "111122223333",
}


@pytest.mark.fact("Q-1")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"capacityReservationSelectorTerms": [{"id": "cr-2"}]}, ["cr-2"]),
        ({"capacityReservationSelectorTerms": [{"id": "cr-9"}]}, []),
        ({"capacityReservationSelectorTerms": [{"ownerID": "111122223333"}]}, ["cr-1"]),
        ({"capacityReservationSelectorTerms": [{"tags": {"team": "*"}}]}, ["cr-1", "cr-2"]),
        ({"capacityReservationSelectorTerms": [{"tags": {"team": "ml", "env": "dev"}}]}, []),
        (
            {"capacityReservationSelectorTerms": [{"tags": {"team": "*"}, "ownerID": "444455556666"}]},
            ["cr-2"],
        ),
        ({"capacityReservationSelectorTerms": [{"instanceMatchCriteria": "open"}]}, ["cr-1", "cr-3"]),
        ({"capacityReservationSelectorTerms": [{"tags": {}}]}, []),
        ({"capacityReservationSelectorTerms": [{"id": "cr-1"}, {"tags": {"env": "prod"}}]}, ["cr-1"]),
        (
            {
                "capacityReservationSelectorTerms": [{"id": "cr-1"}],
                "status": {"capacityReservations": [STATUS_ENTRY]},
            },
            ["cr-3"],
        ),
    ],
)
def test_a_nodeclass_gets_the_reservations_that_it_selects(spec: dict[str, Any], expected: list[str]) -> None:
    assert sorted(reserved(ec2nodeclass(**spec), reservations=RESERVATIONS)) == expected


def test_a_nodepool_without_its_nodeclass_gets_no_reservation() -> None:
    made = instance_type(offerings=[offering(kind="reserved", reservation={"id": "cr-7", "available": 2})])
    assert not reserved(instanceTypes=[made], reservations=RESERVATIONS)
    selecting = ec2nodeclass(capacityReservationSelectorTerms=[{"id": "cr-7"}])
    assert list(reserved(selecting, instanceTypes=[made], reservations=RESERVATIONS)) == ["cr-7"]
    notes = built(nodepool(), reservations=RESERVATIONS).notes
    assert "not among the files" in notes[0]


def test_an_offering_may_refer_to_a_listed_reservation() -> None:
    made = instance_type(
        offerings=[offering(kind="reserved", reservation={"id": "cr-1"}, healthy=False, price="0.5")]
    )
    selecting = ec2nodeclass(capacityReservationSelectorTerms=[{"id": "cr-1"}])
    listed = [reservation("cr-1", available=3)]
    (reserved_offering,) = reserved(selecting, instanceTypes=[made], reservations=listed).values()
    assert (
        reserved_offering.count,
        reserved_offering.healthy,
        reserved_offering.price_nano_usd_per_hour,
    ) == (3, False, 500_000_000)


@pytest.mark.parametrize(
    ("spec", "healthy"),
    [
        ({}, True),
        ({"state": "assessing"}, False),
        ({"state": "scheduled"}, False),
        ({"state": "cancelled"}, False),
        ({"start": "2026-11-15T10:00:00Z"}, True),
        ({"start": "2026-11-15T10:00:01Z"}, False),
        ({"end": "2026-11-15T10:30:00Z"}, True),
        ({"end": "2026-11-15T10:30:00Z", "type": "capacity-block"}, False),
        ({"end": "2026-11-15T10:41:00Z", "type": "capacity-block"}, True),
        ({"total": 4, "available": 0}, True),
    ],
)
def test_a_reserved_offering_is_healthy_while_nodes_may_be_launched_into_it(
    spec: dict[str, Any], *, healthy: bool
) -> None:
    every = ec2nodeclass(capacityReservationSelectorTerms=[{"id": "cr-1"}])
    got = reserved(every, reservations=[reservation("cr-1", **spec)])
    assert got["cr-1"].healthy is healthy


def test_reservations_that_no_nodeclass_selects_are_in_the_snapshot() -> None:
    got = built(reservations=[reservation("cr-1", state="expired", available=1)]).request.snapshot
    (one,) = got.reservations
    assert (one.id, one.kind, one.total, one.available, one.state) == ("cr-1", "default", 4, 1, State.GONE)


def region_types(
    node_class: EC2NodeClass | None, selected: Sequence[Listed], now_s: int
) -> tuple[InstanceType, ...]:
    """Instance types of a region, with the arguments of the call as labels."""
    arguments = {
        "class": node_class.metadata.name if node_class else "nobody",
        "selected": "-".join(one.reservation.id for one in selected),
        "at": str(now_s),
    }
    made = [
        InstanceType(n, requirements.from_labels(arguments), resources.NOTHING, resources.NOTHING, ())
        for n in ("m5.large", "m5.xlarge")
    ]
    return tuple(made)


def test_a_region_adds_instance_types_to_those_of_the_catalog() -> None:
    got = types(
        ec2nodeclass(capacityReservationSelectorTerms=[{"id": "cr-1"}]),
        region="us-west-2",
        regions={"us-west-2": region_types},
        reservations=[reservation(id_, instanceType="m5.xlarge") for id_ in ("cr-1", "cr-2")],
    )
    assert ["at" in t.requirements for t in got.values()] == [False, True]
    assert str(got["m5.xlarge"].requirements) == f"at In [{NOW_S}], class In [default], selected In [cr-1]"


def test_the_offering_of_an_expiring_reservation_is_not_healthy() -> None:
    expiring = ec2nodeclass(status={"capacityReservations": [STATUS_ENTRY | {"state": "expiring"}]})
    assert not reserved(expiring, reservations=RESERVATIONS)["cr-3"].healthy


def test_nodepools_of_one_nodeclass_share_their_instance_types() -> None:
    one, two = built(nodepool("a"), nodepool("b"), ec2nodeclass()).request.snapshot.node_pools
    assert one.instance_types is two.instance_types


# --- Findings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"region": "mars-1"}, ".spec.region: mars-1 is not a region that is shipped (none)"),
        (
            {"instanceTypes": [instance_type(), instance_type()]},
            ".spec.instanceTypes[1]: m5.large is listed before",
        ),
        (
            {"instanceTypes": [instance_type(capacity={"cpu": "1"})]},
            ".spec.instanceTypes[0].capacity: pods is missing",
        ),
        (
            {"instanceTypes": [instance_type(offerings=[offering(price="cheap")])]},
            ".spec.instanceTypes[0].offerings[0].price: price 'cheap' is not",
        ),
        (
            {"instanceTypes": [instance_type(offerings=[offering(available="many")])]},
            ".spec.instanceTypes[0].offerings[0].available: count 'many' is neither",
        ),
        (
            {"instanceTypes": [instance_type(offerings=[offering(), offering()])]},
            ".spec.instanceTypes[0].offerings[1]: on-demand in us-west-2a is listed before",
        ),
        (
            {"instanceTypes": [instance_type(offerings=[offering(kind="reserved")])]},
            ".spec.instanceTypes[0].offerings[0]: an offering with capacityType reserved needs a reservation",
        ),
        (
            {"instanceTypes": [instance_type(offerings=[offering(reservation={"id": "a", "total": 1})])]},
            ".spec.instanceTypes[0].offerings[0]: an offering with capacityType on-demand has a reservation",
        ),
        (
            {
                "instanceTypes": [
                    instance_type(offerings=[offering(kind="reserved", reservation={"id": "a"})])
                ]
            },
            ".spec.instanceTypes[0].offerings[0].reservation: how many slots?",
        ),
        (
            {"reservations": [reservation(total=1, available=2)]},
            ".spec.reservations[0].available: 2 free slots",
        ),
        (
            {"reservations": [reservation(instanceType="x")]},
            ".spec.reservations[0].instanceType: x is not among",
        ),
        (
            {"reservations": [reservation(), reservation(zone="b")]},
            ".spec.reservations[1]: cr-1 is listed before, as m5.large in us-west-2a",
        ),
        (
            {"reservations": [reservation(), reservation(total=5)]},
            ".spec.reservations[1]: cr-1 is listed before, and not the same",
        ),
        (
            {"reservations": [reservation(start="2026-11-15T10:00:00Z", end="2026-11-15T10:00:00Z")]},
            ".spec.reservations[0].end: it ends before it starts",
        ),
        (
            {"reservations": [reservation(type="capacity-block")]},
            ".spec.reservations[0]: a capacity-block needs an end",
        ),
    ],
)
def test_problems_of_a_catalog_beyond_its_schema_are_reported(spec: dict[str, Any], message: str) -> None:
    (found,) = messages(**spec)
    assert found.startswith(message)


def test_all_invalid_objects_are_reported() -> None:
    found = messages(
        pod("lost", nodeName="nowhere"),
        pod("typo", containers=[container(cpu="lots")]),
        deployment("web", template={"spec": {"containers": [container(memory="1GiB")]}}),
        pod("a-0"),
        statefulset("a", 1),
    )
    assert [f.split(": ")[0] for f in found] == [
        ".spec.nodeName",
        ".spec.containers[0].resources.requests.cpu",
        ".spec.template.spec.containers[0].resources.requests.memory",
        ".",
    ]
    assert "more than one pod would be named default/a-0" in found[-1]


def test_invalid_nodepools_nodes_budgets_and_deployments_are_reported() -> None:
    found = messages(
        nodepool(requirements=[{"key": "cpus", "operator": "Gt", "values": ["9" * 30]}]),
        node("n", status={"allocatable": {"cpu": "lots"}}),
        budget(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        deployment("web", 10**7),
    )
    assert [f.split(": ")[0] for f in found] == [
        ".spec.template.spec.requirements[0].values",
        ".",
        ".spec.selector",
        ".spec",
    ]


def test_an_error_of_a_region_is_reported() -> None:
    def fail(*_: object) -> tuple[InstanceType, ...]:
        raise errors.InvalidInput("no images for mips")

    assert messages(nodepool(), region="r", regions={"r": fail}) == [".spec.region: no images for mips"]


def test_a_scenario_has_one_catalog() -> None:
    none = scenario.find_catalog([])
    assert isinstance(none, tuple)
    assert none[0].obj is None
    two = scenario.find_catalog([catalog(), catalog()])
    assert isinstance(two, tuple)
    assert len(two) == 1


# --- Settings, order --------------------------------------------------------------------------------


def test_flags_override_catalog_settings_and_these_override_defaults() -> None:
    written = WireSettings(packing="karpenter", reservation_wait="1m30s", reserved_before_weight=False)
    got = scenario.settings(written, {"packing": "cost", "packing_candidates": 3, "reserved_mode": None})
    assert got == Settings(
        packing=Packing.COST, packing_candidates=3, reservation_wait_s=90, reserved_before_weight=False
    )
    assert isinstance(got.packing, Packing)


@pytest.mark.parametrize("written", ["JobSet,LeaderWorkerSet", "JobSet", "LeaderWorkerSet", "none"])
def test_sources_of_gangs_are_read_and_written(written: str) -> None:
    got = scenario.settings(WireSettings(gangs_of=written), {})
    assert gangs.sources_text(got.gangs_of) == written


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_objects_does_not_matter(seed: int) -> None:
    objects = [
        nodepool("a"),
        nodepool("b"),
        ec2nodeclass(capacityReservationSelectorTerms=[{"tags": {"team": "*"}}]),
        deployment("web", 3),
        statefulset("db", 2),
        pod("p"),
        node("n"),
        daemonset("logs"),
    ]
    mixed = list(objects)
    random.Random(seed).shuffle(mixed)
    assert built(*mixed, reservations=RESERVATIONS) == built(*objects, reservations=RESERVATIONS)
