"""Facts about the NodePool and the NodeClaim; docs/spec/karpenter-core.md has their ids."""

from typing import Any

import msgspec
import pytest

from crd_tool import objects, schemas
from holdfast import names
from holdfast.api import aws, crds, kinds
from holdfast.api.meta import Object, to_wire


def column_names(crd: dict[str, Any], priority: int) -> list[str]:
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    return [column["name"] for column in columns if column.get("priority", 0) == priority]


def decode(obj: dict[str, Any]) -> Object:
    return kinds.from_plain(obj, kinds.BY_NAME[obj["apiVersion"], obj["kind"]])


def over_the_wire(obj: dict[str, Any]) -> dict[str, Any]:
    body = msgspec.json.decode(msgspec.json.encode(to_wire(decode(obj))))
    assert isinstance(body, dict)
    return body


def pool(**spec: Any) -> dict[str, Any]:
    return objects.spec("NodePool", **spec)


def template(**spec: Any) -> dict[str, Any]:
    return pool(template={"spec": spec})


def labelled(**labels: str) -> dict[str, Any]:
    return pool(template={"metadata": {"labels": labels}})


def requiring(key: str, operator: str = "Exists", **more: Any) -> dict[str, Any]:
    return template(requirements=[{"key": key, "operator": operator, **more}])


def budget(**fields: Any) -> dict[str, Any]:
    return pool(disruption={"budgets": [fields]})


# --- The CRDs ---------------------------------------------------------------------------------------


def test_all_crds_are_cluster_scoped_and_in_the_category_karpenter() -> None:
    for crd in crds.all_crds():
        assert crd["spec"]["scope"] == "Cluster"
        assert crd["spec"]["names"]["categories"] == ["karpenter"]
        assert crd["spec"]["versions"][0]["name"] == "v1"
    assert [crd["metadata"]["name"] for crd in crds.all_crds()] == [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
        "holdfastnodeclasses.holdfast.dev",
    ]
    assert crds.ec2nodeclass()["spec"]["names"]["shortNames"] == ["ec2nc", "ec2ncs"]


@pytest.mark.fact("C-1")
def test_nodepool_status_has_karpenters_fields_and_nodes_defaults_to_zero() -> None:
    status = schemas.node("NodePool", "status")["properties"]
    ours = {"reservationSlots", "nodesByCapacityType"}
    assert set(status) - ours == {"resources", "nodes", "nodeClassObservedGeneration", "conditions"}
    filled = schemas.defaulted(objects.build("NodePool", {"status": {"resources": {}}}))
    assert filled["status"]["nodes"] == 0


@pytest.mark.fact("C-3")
def test_nodepool_printer_columns_are_karpenters() -> None:
    assert column_names(crds.nodepool(), 0) == ["NodeClass", "Nodes", "Ready", "Age"]
    assert column_names(crds.nodepool(), 1) == ["Weight", "CPU", "Memory"]


@pytest.mark.fact("C-6")
def test_nodeclaim_printer_columns_are_karpenters_and_the_reservation() -> None:
    columns = column_names(crds.nodeclaim(), 0)
    assert columns == ["Type", "Capacity", "Zone", "Node", "Reservation", "Ready", "Age"]
    assert [one for one in columns if one != "Reservation"] == [
        "Type",
        "Capacity",
        "Zone",
        "Node",
        "Ready",
        "Age",
    ]
    assert column_names(crds.nodeclaim(), 1) == ["ImageID", "ID", "NodePool", "NodeClass", "Drifted"]


def test_nodepool_scale_subresource_uses_replicas() -> None:
    scale = crds.nodepool()["spec"]["versions"][0]["subresources"]["scale"]
    assert scale == {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}


@pytest.mark.fact("C-5")
def test_unset_reasons_of_a_budget_differ_from_empty_reasons_on_the_wire() -> None:
    unset, none, empty = budget(nodes="1"), budget(nodes="1", reasons=None), budget(nodes="1", reasons=[])
    for obj in (unset, none, empty):
        assert objects.is_valid(obj)
    assert "reasons" not in over_the_wire(unset)["spec"]["disruption"]["budgets"][0]
    assert "reasons" not in over_the_wire(none)["spec"]["disruption"]["budgets"][0]
    assert over_the_wire(empty)["spec"]["disruption"]["budgets"][0]["reasons"] == []


@pytest.mark.fact("C-5")
@pytest.mark.parametrize("kind", ["NodePool", "EC2NodeClass"])
def test_a_condition_needs_a_reason_and_a_message(kind: str) -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T08:00:00Z"}
    complete = condition | {"reason": "Ready", "message": ""}
    assert objects.is_valid(objects.build(kind, {"status": {"conditions": [complete]}}))
    for incomplete in (condition, complete | {"reason": ""}):
        assert objects.refused_at(objects.build(kind, {"status": {"conditions": [incomplete]}}))


def test_nodeclaim_condition_needs_neither_reason_nor_message() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T08:00:00Z"}
    for incomplete in (condition, condition | {"reason": ""}):
        assert objects.is_valid(objects.build("NodeClaim", {"status": {"conditions": [incomplete]}}))


@pytest.mark.fact("C-7")
@pytest.mark.parametrize("written", ["Never", "720h", "60m", "3600s", "1h0m0s", "0h30m", "90s"])
def test_durations_are_encoded_as_they_were_written(written: str) -> None:
    obj = pool(
        template={"spec": {"expireAfter": written}},
        disruption={"consolidateAfter": written},
    )
    assert objects.is_valid(obj)
    after = schemas.defaulted(over_the_wire(obj))["spec"]
    assert after["template"]["spec"]["expireAfter"] == written
    assert after["disruption"]["consolidateAfter"] == written


@pytest.mark.fact("C-7")
@pytest.mark.parametrize("written", ["60m", "3600s", "1h0m0s"])
def test_grace_periods_are_encoded_as_they_were_written(written: str) -> None:
    claim = objects.spec("NodeClaim", terminationGracePeriod=written)
    assert objects.is_valid(claim)
    assert over_the_wire(claim)["spec"]["terminationGracePeriod"] == written


@pytest.mark.fact("C-8")
def test_labels_of_managed_nodes_are_spelt_as_karpenter_spells_them() -> None:
    assert names.NODEPOOL == "karpenter.sh/nodepool"
    assert names.REGISTERED == "karpenter.sh/registered"
    assert names.INITIALIZED == "karpenter.sh/initialized"
    assert names.CAPACITY_TYPE == "karpenter.sh/capacity-type"
    assert names.DO_NOT_SYNC_TAINTS == "karpenter.sh/do-not-sync-taints"
    assert aws.EC2NODECLASS == "karpenter.k8s.aws/ec2nodeclass"


@pytest.mark.fact("C-9")
@pytest.mark.parametrize(
    ("ours", "karpenters"),
    [
        (names.DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt"),
        (names.DO_NOT_REPAIR, "karpenter.sh/do-not-repair"),
        (names.DISRUPTION_COST, "karpenter.sh/disruption-cost"),
        (names.REBOOT_PRE_BOOT_ID, "karpenter.sh/reboot-pre-boot-id"),
        (names.REBOOT_TERMINATION_GRACE_PERIOD, "karpenter.sh/reboot-termination-grace-period"),
        (names.NODEPOOL_HASH, "karpenter.sh/nodepool-hash"),
        (names.NODEPOOL_HASH_VERSION, "karpenter.sh/nodepool-hash-version"),
        (names.TERMINATION_TIMESTAMP, "karpenter.sh/nodeclaim-termination-timestamp"),
        (names.MIN_VALUES_RELAXED, "karpenter.sh/nodeclaim-min-values-relaxed"),
        (names.REQUESTED_DRA_DRIVERS, "karpenter.sh/requested-dra-drivers"),
        (names.PRICE_OVERLAY_APPLIED, "karpenter.sh/price-overlay-applied"),
        (names.CAPACITY_OVERLAY_APPLIED, "karpenter.sh/capacity-overlay-applied"),
        (names.PROVIDER_COMPATIBILITY, "compatibility.karpenter.sh/provider"),
        (names.TERMINATION_FINALIZER, "karpenter.sh/termination"),
        (names.DISRUPTED_TAINT, "karpenter.sh/disrupted"),
        (names.UNREGISTERED_TAINT, "karpenter.sh/unregistered"),
        (names.REBOOTING_TAINT, "karpenter.sh/rebooting"),
    ],
)
def test_annotations_finalizer_and_taints_are_spelt_as_karpenter_spells_them(
    ours: str, karpenters: str
) -> None:
    assert ours == karpenters


def test_names_of_aws_are_spelt_as_karpenter_spells_them() -> None:
    assert aws.GROUP == "karpenter.k8s.aws"
    assert aws.CAPACITY_RESERVATION_ID == "karpenter.k8s.aws/capacity-reservation-id"
    assert aws.CAPACITY_RESERVATION_TYPE == "karpenter.k8s.aws/capacity-reservation-type"
    assert aws.CAPACITY_RESERVATION_INTERRUPTIBLE == "karpenter.k8s.aws/capacity-reservation-interruptible"
    assert aws.ZONE_ID == "topology.k8s.aws/zone-id"
    assert aws.INSTANCE_TENANCY == "karpenter.k8s.aws/instance-tenancy"
    assert aws.TERMINATION_FINALIZER == "karpenter.k8s.aws/termination"
    assert aws.EC2NODECLASS_HASH == "karpenter.k8s.aws/ec2nodeclass-hash"
    assert aws.EC2NODECLASS_HASH_VERSION == "karpenter.k8s.aws/ec2nodeclass-hash-version"
    assert aws.TAGGED == "karpenter.k8s.aws/tagged"
    assert aws.INSTANCE_PROFILE_NAME == "karpenter.k8s.aws/instance-profile-name"
    assert aws.CLUSTER_NAME_TAGGED == "compatibility.karpenter.k8s.aws/cluster-name-tagged"
    assert aws.CLUSTER_NAME_TAG == "eks:eks-cluster-name"
    assert names.CAPACITY_TYPES == ("reserved", "spot", "on-demand")


# --- Fields of the NodePool -------------------------------------------------------------------------


def test_nodepool_has_karpenters_defaults() -> None:
    spec = schemas.defaulted(objects.build("NodePool"))["spec"]
    assert spec["disruption"] == {
        "budgets": [{"nodes": "10%"}],
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
    }
    assert spec["template"]["spec"]["expireAfter"] == "720h"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (template(expireAfter="1h30m"), template(expireAfter="1d")),
        (template(expireAfter="Never"), template(expireAfter="never")),
        (template(terminationGracePeriod="90s"), template(terminationGracePeriod="Never")),
        (pool(disruption={"consolidateAfter": "0s"}), pool(disruption={"consolidateAfter": "-1s"})),
        (pool(disruption={"consolidateAfter": "Never"}), pool(disruption={"consolidateAfter": "1.5h"})),
        (pool(weight=1), pool(weight=0)),
        (pool(weight=100), pool(weight=101)),
        (pool(replicas=0), pool(replicas=-1)),
        (pool(limits={"cpu": "1.5"}), pool(limits={"cpu": "1.5x"})),
        (pool(limits={"memory": "10Gi"}), pool(limits={"memory": "10GB"})),
        (budget(nodes="0"), budget(nodes="-1")),
        (budget(nodes="100%"), budget(nodes="101%")),
        (budget(nodes="7"), budget(nodes=7)),
        (budget(schedule="@daily", duration="8h"), budget(schedule="@never", duration="8h")),
        (budget(schedule="0 9 * * 1", duration="8h"), budget(schedule="0 9 * *", duration="8h")),
        (budget(schedule="@daily", duration="1h30m"), budget(schedule="@daily", duration="90s")),
        (budget(schedule="@daily", duration="8h0s"), budget(schedule="@daily", duration="8h5s")),
        (budget(reasons=["Unhealthy"]), budget(reasons=["Bored"])),
        (requiring("a" * 63), requiring("a" * 317)),
        (requiring("example.com/team"), requiring("example.com/")),
        (requiring("team", minValues=1), requiring("team", minValues=0)),
        (requiring("team", minValues=50), requiring("team", minValues=51)),
        (requiring("team", "Gte", values=["1"]), requiring("team", "Ge", values=["1"])),
        (labelled(team="x" * 63), labelled(team="x" * 64)),
        (labelled(team=""), labelled(team="we b")),
        (
            template(requirements=[{"key": "team", "operator": "Exists"}] * 100),
            template(requirements=[{"key": "team", "operator": "Exists"}] * 101),
        ),
        (
            labelled(**{f"l{n}": "" for n in range(100)}),
            labelled(**{f"l{n}": "" for n in range(101)}),
        ),
        (
            pool(disruption={"budgets": [{"nodes": "1"}] * 50}),
            pool(disruption={"budgets": [{"nodes": "1"}] * 51}),
        ),
        (
            template(taints=[{"key": "team", "effect": "NoExecute"}]),
            template(taints=[{"key": "team", "effect": "Never"}]),
        ),
        (
            template(startupTaints=[{"key": "a/b", "value": "c", "effect": "NoSchedule"}]),
            template(startupTaints=[{"key": "", "effect": "NoSchedule"}]),
        ),
        (
            template(taints=[{"key": "team", "value": "a_b", "effect": "NoSchedule"}]),
            template(taints=[{"key": "team", "value": "a b", "effect": "NoSchedule"}]),
        ),
        (
            template(taints=[{"key": "team", "effect": "PreferNoSchedule"}]),
            template(taints=[{"key": "team"}]),
        ),
        (
            template(nodeClassRef={"group": "karpenter.example.com"}),
            template(nodeClassRef={"group": "karpenter.example.com/v1"}),
        ),
    ],
)
def test_nodepool_fields_outside_their_bounds_are_rejected(good: dict[str, Any], bad: dict[str, Any]) -> None:
    assert objects.lines(good) == []
    assert objects.lines(bad)


def test_budget_without_nodes_defaults_to_ten_percent() -> None:
    (filled,) = schemas.defaulted(budget(reasons=["Empty"]))["spec"]["disruption"]["budgets"]
    assert filled["nodes"] == "10%"
    assert objects.is_valid(budget(reasons=["Empty"]))


@pytest.mark.fact("aws-1.6.7")
@pytest.mark.parametrize("key", aws.RESERVED_CAPACITY_LABELS)
def test_nodepool_may_select_on_the_labels_of_reservations(key: str) -> None:
    assert objects.is_valid(requiring(key))
    assert objects.is_valid(labelled(**{key: "true"}))


def test_empty_budgets_stay_empty_on_the_wire() -> None:
    assert over_the_wire(pool(disruption={"budgets": []}))["spec"]["disruption"]["budgets"] == []


def test_ec2nodeclass_has_the_same_schema_in_both_groups_and_other_names() -> None:
    """kubectl prefers the first group in alphabetical order: with equal names, `kubectl get ec2nodeclasses` would list the
    classes of holdfast.dev."""
    karpenter, holdfast = crds.ec2nodeclass()["spec"], crds.holdfastnodeclass()["spec"]
    assert holdfast["versions"] == karpenter["versions"]
    assert holdfast["names"]["kind"] == karpenter["names"]["kind"]
    for key in ("plural", "singular"):
        assert holdfast["names"][key] != karpenter["names"][key]
    assert not {*holdfast["names"]["shortNames"]} & {*karpenter["names"]["shortNames"]}
