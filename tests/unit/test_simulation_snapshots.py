"""A file of `holdfast snapshot` as the start of a simulation: what becomes of its Catalog and of its objects."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.studies import Mistakes
from snapshot_builders import (
    SLOTS,
    catalog,
    instance_type,
    node,
    of_kind,
    offering,
    pod,
    pool,
    read,
    reservation,
)

Json = dict[str, Any]


def test_time_region_prices_and_settings_are_those_of_the_catalog(tmp_path: Path) -> None:
    offerings = (
        offering("on-demand", "0.5"),
        offering("spot", "0.1"),
        offering("spot", "0.2", zone="us-west-2b"),
    )
    found = catalog(instanceTypes=[instance_type("m5.large", *offerings)], settings={"packing": "karpenter"})
    (study,) = read(tmp_path, found, pool())
    assert (study.begins_s, study.setup.region) == (1_794_816_000, "us-west-2")
    assert study.setup.prices == {"m5.large": 500_000_000}
    assert sorted(study.setup.spot_prices.values()) == [100_000_000, 200_000_000]
    assert study.planning.packing == "karpenter"


def test_slots_of_the_cluster_are_free_and_those_of_others_are_not(tmp_path: Path) -> None:
    instance = {
        "providerID": "aws:///us-west-2a/i-1",
        "reservationID": SLOTS,
        "instanceType": "m5.large",
        "zone": "us-west-2a",
        "launched": "2026-11-16T07:00:00Z",
    }
    (study,) = read(tmp_path, catalog(reservations=[reservation(available=1)], instances=[instance]), pool())
    (slots,) = study.setup.reservations
    assert (slots.total, slots.elsewhere, slots.criteria) == (4, 2, "targeted")


def test_generated_class_selects_the_reservations_of_its_types(tmp_path: Path) -> None:
    reserved = offering("reserved", "0.5", reservation={"id": SLOTS})
    types = [instance_type("m5.large", offering("on-demand", "0.5"), reserved)]
    found = catalog(instanceTypes=types, reservations=[reservation(), reservation("cr-02")])
    (study,) = read(tmp_path, found, pool())
    (term,) = of_kind(study, "EC2NodeClass")["special"]["spec"]["capacityReservationSelectorTerms"]
    selected = [one.id for one in study.setup.reservations if term["tags"].items() <= one.tags.items()]
    assert selected == [SLOTS]
    assert "EC2NodeClass special is not in the files, so a plain one with AL2023 is used" in study.notes


def test_nodepool_of_a_generated_class_has_the_zones_and_architectures_of_its_types(tmp_path: Path) -> None:
    intel = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": ["linux"]}
    (study,) = read(tmp_path, catalog(instanceTypes=[instance_type() | {"labels": intel}]), pool())
    own, *added = of_kind(study, "NodePool")["default"]["spec"]["template"]["spec"]["requirements"]
    assert own["key"] == "karpenter.sh/capacity-type"
    assert {one["key"]: one["values"] for one in added} == {
        "topology.kubernetes.io/zone": ["us-west-2a"],
        "kubernetes.io/arch": ["amd64"],
        "kubernetes.io/os": ["linux"],
    }


def test_class_of_the_files_is_used(tmp_path: Path) -> None:
    own = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "special"},
        "spec": {"role": "own"},
    }
    (study,) = read(tmp_path, catalog(), pool(), own)
    assert (of_kind(study, "EC2NodeClass"), study.notes) == ({"special": own}, ())
    (requirement,) = of_kind(study, "NodePool")["default"]["spec"]["template"]["spec"]["requirements"]
    assert requirement["key"] == "karpenter.sh/capacity-type"


def test_equal_pods_of_a_controller_are_a_deployment(tmp_path: Path) -> None:
    pods = [
        pod("a", "web", "n-1"),
        pod("b", "web"),
        pod("c", "web", hostNetwork=True),
        pod("d", "db", kind="StatefulSet"),
    ]
    (study,) = read(tmp_path, catalog(), pool(), node("n-1", **{"karpenter.sh/nodepool": "default"}), *pods)
    found = of_kind(study, "Deployment")
    assert {name: one["spec"]["replicas"] for name, one in found.items()} == {"web": 2, "web-2": 1, "db": 1}
    assert {one["metadata"]["namespace"] for one in found.values()} == {"shop"}
    assert "nodeName" not in found["web"]["spec"]["template"]["spec"]
    assert not {"Pod", "Node", "NodeClaim"} & {one["kind"] for one in study.objects}


def test_pods_of_jobs_and_bare_pods_run_until_the_end(tmp_path: Path) -> None:
    (study,) = read(tmp_path, catalog(), pool(), pod("a", "train", kind="Job"), pod("bare"))
    jobs = of_kind(study, "Job")
    assert list(jobs) == ["a-0", "bare-1"]
    assert study.notes[0] == "until the end run: 2 pods of Jobs or without a controller"


def test_pods_that_no_nodepool_serves_are_left_out_with_a_note(tmp_path: Path) -> None:
    pods = [pod("a", "web", "managed"), pod("b", "web"), pod("c", "agent", "managed", kind="DaemonSet")]
    (study,) = read(tmp_path, catalog(), pool(), node("managed"), *pods)
    assert of_kind(study, "Deployment")["web"]["spec"]["replicas"] == 1
    assert study.notes[0] == "left out: 1 pod on nodes without a NodePool"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"state": "expired"}, "it is expired"),
        ({"end": "2026-11-16T07:00:00Z"}, "it has ended"),
        ({"tenancy": "dedicated"}, "its tenancy is dedicated"),
        ({"total": 0, "available": 0}, "it has no slots"),
        ({"instanceType": "m99.large"}, "m99.large is not offered in us-west-2a in the simulation"),
    ],
)
def test_reservation_that_cannot_be_used_is_left_out_with_a_note(
    tmp_path: Path, fields: Json, why: str
) -> None:
    found = catalog(reservations=[reservation() | fields, reservation("cr-02")])
    (study,) = read(tmp_path, found, pool())
    assert [one.id for one in study.setup.reservations] == ["cr-02"]
    assert f"reservation {SLOTS} is left out: {why}" in study.notes


def test_unknown_instance_type_costs_only_itself(tmp_path: Path) -> None:
    (study,) = read(tmp_path, catalog(instanceTypes=[instance_type(), instance_type("m99.large")]), pool())
    assert study.notes[0] == "the simulated EC2 does not have 1 instance type of the snapshot: m99.large"
    assert list(study.setup.prices) == ["m5.large"]


def test_nodepool_that_was_not_ready_is_left_out_with_a_note(tmp_path: Path) -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NotUsed",
        "message": "its class is missing",
        "lastTransitionTime": "2026-11-16T08:00:00Z",
    }
    (study,) = read(tmp_path, catalog(), pool(status={"conditions": [condition]}))
    assert of_kind(study, "NodePool") == {}
    assert "because it was not ready: its class is missing" in study.notes[0]


def test_world_of_the_files_changes_that_of_the_snapshot(tmp_path: Path) -> None:
    """A generated class selects the reservations of a World, so a variant can add one."""
    world = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "World",
        "metadata": {"name": "more"},
        "spec": {
            "cluster": "blue",
            "prices": [{"instanceType": "m5.large", "price": "0.7"}],
            "reservations": [reservation("cr-09") | {"total": 9}],
        },
    }
    del world["spec"]["reservations"][0]["available"]  # type: ignore[index]
    base, more = read(tmp_path, catalog(reservations=[reservation()]), pool(), changes=world)
    assert (base.setup.prices, more.setup.prices) == ({"m5.large": 500_000_000}, {"m5.large": 700_000_000})
    assert [(one.id, one.total) for one in more.setup.reservations] == [("cr-09", 9), (SLOTS, 4)]
    (node_class,) = of_kind(more, "EC2NodeClass").values()
    (term,) = node_class["spec"]["capacityReservationSelectorTerms"]
    assert term["tags"].items() <= more.setup.reservations[0].tags.items()
    assert node_class["spec"]["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "blue"}}]


def test_deployment_of_the_snapshot_can_follow_a_curve(tmp_path: Path) -> None:
    curve = {"deployment": "shop/web", "points": [{"at": "00:00", "replicas": 3}]}
    simulation = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": "curve"},
        "spec": {"replicas": [curve]},
    }
    (study,) = read(tmp_path, catalog(), pool(), pod("a", "web"), simulation)
    assert study.spec.replicas[0].deployment == "shop/web"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (catalog(instanceTypes=[instance_type("m5.large", offering("on-demand", "1", zone="mars-north-1a"))]), "mars-north-1 is not a region that is shipped"),
        (catalog(region="eu-west-1"), "a simulation has one region, and the Catalog has zones of eu-west-1, us-west-2"),
        (catalog(instanceTypes=[]), "a simulation has one region, and the Catalog has no zones"),
        (catalog(prices=[]), "prices"),
    ],
)  # fmt: skip
def test_catalog_that_cannot_be_simulated_is_an_error(tmp_path: Path, document: Json, message: str) -> None:
    with pytest.raises(Mistakes) as caught:
        read(tmp_path, document, pool())
    assert message in str(caught.value.args[0])
    assert "snapshot.json" in str(caught.value.args[0])


def test_broken_pod_of_a_snapshot_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(Mistakes) as caught:
        read(tmp_path, catalog(), pool(), pod("a", "web", containers="none"))
    assert "Pod/a" in str(caught.value.args[0])
