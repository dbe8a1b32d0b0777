"""Facts about the EC2NodeClass, as docs/spec/karpenter-aws.md numbers them, and the rows of the design documents.

Where Holdfast differs on purpose, the test shows what it does instead.
"""

from typing import Any

import pytest

from crd_tool import objects, schemas

ID = "cr-0123456789abcdef0"
OWNER = "111122223333"
AMI = {"id": "ami-0123456789abcdef0"}
ARN = "arn:aws:resource-groups:us-west-2:111122223333:group/web"
ALIASES = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}


def nodeclass(**spec: Any) -> dict[str, Any]:
    return objects.spec("EC2NodeClass", **spec)


def accepted(**spec: Any) -> bool:
    return objects.is_valid(nodeclass(**spec))


def refused_at(**spec: Any) -> list[str]:
    return objects.refused_at(nodeclass(**spec))


def ebs(**fields: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": fields}]}


def images(*terms: dict[str, Any], family: str | None = "AL2023") -> dict[str, Any]:
    return {"amiSelectorTerms": list(terms), "amiFamily": family}


def reservations(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"capacityReservationSelectorTerms": list(terms)}


def interface(card: int, device: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}


def tagged(count: int) -> dict[str, str]:
    return {f"tag-{number}": "x" for number in range(count)}


# --- 1.1 Spec ---------------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.1.1")
def test_a_class_has_a_role_or_an_instance_profile() -> None:
    assert accepted(role="nodes")
    assert accepted(role=None, instanceProfile="nodes")
    assert refused_at(role=None) == [".spec"]
    assert refused_at(instanceProfile="nodes") == [".spec"]
    assert refused_at(role="") == [".spec.role"]
    assert refused_at(role=None, instanceProfile="") == [".spec.instanceProfile"]


@pytest.mark.fact("aws-1.1.2")
@pytest.mark.parametrize("alias", ALIASES)
def test_a_family_is_that_of_the_alias_or_custom(alias: str) -> None:
    term = {"alias": f"{alias}@latest"}
    for family in (None, ALIASES[alias], "Custom"):
        assert accepted(**images(term, family=family))
    for family in ALIASES.values():
        assert accepted(**images(term, family=family)) is (family == ALIASES[alias])


@pytest.mark.fact("aws-1.1.2")
def test_ami_family_is_required_without_an_alias() -> None:
    assert accepted(**images(AMI))
    assert refused_at(**images(AMI, family=None)) == [".spec"]
    assert refused_at(**images(AMI, family="Ubuntu")) == [".spec.amiFamily"]


@pytest.mark.fact("aws-1.1.3")
def test_metadata_options_are_defaulted_per_field() -> None:
    defaults = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }
    assert schemas.defaulted(nodeclass())["spec"]["metadataOptions"] == defaults
    some = schemas.defaulted(nodeclass(metadataOptions={"httpTokens": "optional"}))["spec"]
    assert some["metadataOptions"] == defaults | {"httpTokens": "optional"}


@pytest.mark.fact("aws-1.1.3")
@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("httpPutResponseHopLimit", [1, 64], [0, 65]),
        ("httpTokens", ["required", "optional"], ["enabled"]),
        ("httpEndpoint", ["enabled", "disabled"], ["required"]),
        ("httpProtocolIPv6", ["enabled", "disabled"], ["optional"]),
    ],
)
def test_the_bounds_of_metadata_options(field: str, good: list[Any], bad: list[Any]) -> None:
    assert all(accepted(metadataOptions={field: value}) for value in good)
    assert all(refused_at(metadataOptions={field: value}) for value in bad)


@pytest.mark.fact("aws-1.1.4")
def test_tags_set_by_the_autoscaler_are_rejected() -> None:
    assert accepted(tags={"team": "web", "empty": ""})
    for tag in (
        "",
        "eks:eks-cluster-name",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "kubernetes.io/cluster",
        "kubernetes.io/cluster/my-cluster",
    ):
        assert refused_at(tags={tag: "x"}) == [".spec.tags"]


@pytest.mark.fact("aws-1.1.5")
def test_block_device_mapping_rules() -> None:
    two_roots = [{"deviceName": name, "rootVolume": True} for name in ("/dev/xvda", "/dev/xvdb")]
    assert refused_at(blockDeviceMappings=two_roots) == [".spec.blockDeviceMappings"]
    assert refused_at(**ebs(encrypted=True))
    assert accepted(**ebs(snapshotID="snap-1", volumeInitializationRate=300))
    for rate in (99, 301):
        assert refused_at(**ebs(snapshotID="snap-1", volumeInitializationRate=rate))
    assert refused_at(**ebs(volumeSize="1Gi", volumeInitializationRate=100))
    assert refused_at(**ebs(volumeSize="1Gi", snapshotID="", volumeInitializationRate=100))
    for volume_type in ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"):
        assert accepted(**ebs(volumeSize="1Gi", volumeType=volume_type))
    assert refused_at(**ebs(volumeSize="1Gi", volumeType="gp4"))


@pytest.mark.fact("aws-1.1.6")
@pytest.mark.parametrize(
    "size", ["1Gi", "59000Gi", "1G", "64000G", "1Ti", "18Ti", "19Ti", "28Ti", "58Ti", "1T", "64T"]
)
def test_valid_volume_size_is_accepted(size: str) -> None:
    assert accepted(**ebs(volumeSize=size))


@pytest.mark.fact("aws-1.1.6")
@pytest.mark.parametrize(
    "size", ["0Gi", "59001Gi", "64001G", "59Ti", "65T", "Ti", "T", "Gi", "", "10", "1.5Ti", "10Mi", "010Gi"]
)
def test_invalid_volume_size_is_rejected(size: str) -> None:
    assert refused_at(**ebs(volumeSize=size)) == [".spec.blockDeviceMappings[0].ebs.volumeSize"]


@pytest.mark.fact("aws-1.1.7")
def test_network_interface_rules() -> None:
    first = interface(0, 0)
    assert accepted(networkInterfaces=[])
    assert accepted(networkInterfaces=[first, interface(0, 1, "efa-only"), interface(1, 1, "efa-only")])
    for wrong in (
        [interface(1, 0)],
        [interface(0, 0, "efa-only")],
        [first, first],
        [first, interface(1, 1, "efa-only"), interface(1, 2, "efa-only")],
        [first, interface(-1, 0)],
        [first, interface(1, -1)],
        [first, interface(1, 1, "efa")],
    ):
        assert refused_at(networkInterfaces=wrong)


@pytest.mark.fact("aws-1.1.8")
@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("tcpEstablishedTimeout", 60, 432000), ("udpStreamTimeout", 60, 180), ("udpTimeout", 30, 60)],
)
def test_connection_tracking_limits(field: str, least: int, most: int) -> None:
    assert accepted(connectionTracking={field: least})
    assert accepted(connectionTracking={field: most})
    assert refused_at(connectionTracking={field: least - 1})
    assert refused_at(connectionTracking={field: most + 1})
    assert refused_at(connectionTracking={}) == [".spec.connectionTracking"]


@pytest.mark.fact("aws-1.1.9")
def test_placement_group_selector_rules() -> None:
    assert accepted(placementGroupSelector={"name": "web"})
    assert accepted(placementGroupSelector={"id": "pg-0123456789abcdef0"})
    for wrong in ({}, {"name": ""}, {"id": "x-pg-1"}, {"id": "pg-1", "name": "web"}):
        assert refused_at(placementGroupSelector=wrong)


@pytest.mark.fact("aws-1.1.10")
def test_defaults_come_from_the_schema_alone() -> None:
    """Where the schema has no default, an object stays as it was written."""
    spec = schemas.defaulted(nodeclass())["spec"]
    assert spec.keys() - nodeclass()["spec"].keys() == {"metadataOptions"}


def test_the_number_of_terms_is_bounded() -> None:
    for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms"):
        assert accepted(**{field: [{"tags": {"a": "b"}}] * 30})
        assert refused_at(**{field: [{"tags": {"a": "b"}}] * 31}) == [f".spec.{field}"]
    assert refused_at(**images(*[AMI] * 31)) == [".spec.amiSelectorTerms"]
    assert refused_at(**images()) == [".spec.amiSelectorTerms"]


def test_unknown_kubelet_settings_are_accepted() -> None:
    assert accepted(kubelet={"maxPods": 10, "anythingNew": {"deep": [1, None]}})
    assert refused_at(kubelet="maxPods=10") == [".spec.kubelet"]


# --- 1.2 Selector terms -----------------------------------------------------------------------------


@pytest.mark.fact("aws-1.2.1")
@pytest.mark.parametrize(
    "terms",
    [
        [{"alias": "al2023@v20260224"}],
        [{"tags": {"team": "web"}}],
        [AMI],
        [{"id": "contains-ami-1-anywhere"}],
        [{"name": "nodes-*", "owner": "self", "tags": {"team": "web"}}],
        [{"ssmParameter": "/nodes/image"}],
        [AMI | {"ssmParameter": "/nodes/image"}],
        [{"alias": "al2023@latest", "ssmParameter": "/nodes/image"}],
    ],
)
def test_valid_ami_selector_terms_are_accepted(terms: list[dict[str, Any]]) -> None:
    assert accepted(**images(*terms))


@pytest.mark.fact("aws-1.2.1")
@pytest.mark.parametrize(
    "terms",
    [
        [{"alias": f"al2023@{'v' * 24}"}],
        [{"alias": "ubuntu@latest"}],
        [{"alias": "al2023"}],
        [{"alias": "windows2022@v1"}],
        [{"id": "image-1"}],
        [{"owner": "self"}],
        [{}],
        [AMI | {"tags": {"team": "web"}}],
        [AMI, AMI | {"name": "nodes"}],
        [AMI | {"owner": "self"}],
        [AMI | {"alias": "al2023@latest"}],
        [{"alias": "al2023@latest", "tags": {"team": "web"}}],
        [{"alias": "al2023@latest", "name": "nodes"}],
        [{"alias": "al2023@latest"}, AMI],
        [{"alias": "al2023@latest"}, {"alias": "al2023@latest"}],
    ],
)
def test_invalid_ami_selector_terms_are_rejected(terms: list[dict[str, Any]]) -> None:
    assert refused_at(**images(*terms))


@pytest.mark.fact("aws-1.2.2")
def test_subnets_are_selected_by_tags_or_id() -> None:
    assert accepted(subnetSelectorTerms=[{"tags": {"tier": "*"}}, {"id": "subnet-1"}])
    assert refused_at(subnetSelectorTerms=[]) == [".spec.subnetSelectorTerms"]


@pytest.mark.fact("aws-1.2.2")
@pytest.mark.parametrize("term", [{}, {"id": "net-1"}, {"id": "subnet-1", "tags": {"tier": "*"}}])
def test_invalid_subnet_selector_term_is_rejected(term: dict[str, Any]) -> None:
    assert refused_at(subnetSelectorTerms=[term])


@pytest.mark.fact("aws-1.2.3")
def test_security_groups_are_selected_by_tags_id_or_name() -> None:
    assert accepted(securityGroupSelectorTerms=[{"tags": {"tier": "*"}}, {"id": "sg-1"}, {"name": "nodes"}])
    assert refused_at(securityGroupSelectorTerms=[]) == [".spec.securityGroupSelectorTerms"]


@pytest.mark.fact("aws-1.2.3")
@pytest.mark.parametrize(
    "term",
    [
        {},
        {"id": "group-1"},
        {"id": "sg-1", "tags": {"tier": "*"}},
        {"id": "sg-1", "name": "nodes"},
        {"name": "nodes", "tags": {"tier": "*"}},
    ],
)
def test_invalid_security_group_selector_term_is_rejected(term: dict[str, Any]) -> None:
    assert refused_at(securityGroupSelectorTerms=[term])


@pytest.mark.fact("aws-1.2.4", "Q-1")
@pytest.mark.parametrize(
    "term",
    [
        {"id": ID},
        {"ownerID": OWNER},
        {"tags": {"team": "*"}},
        {"instanceMatchCriteria": "open"},
        {"instanceMatchCriteria": "targeted"},
        {"ownerID": OWNER, "tags": {"team": "web"}, "instanceMatchCriteria": "open"},
    ],
)
def test_valid_reservation_selector_term_is_accepted(term: dict[str, Any]) -> None:
    assert accepted(**reservations(term))


@pytest.mark.fact("aws-1.2.4", "Q-1")
@pytest.mark.parametrize(
    "term",
    [
        {},
        {"id": f"x{ID}"},
        {"id": "cr-ABC"},
        {"id": f"{ID}\n"},
        {"ownerID": "11112222333"},
        {"ownerID": "self"},
        {"ownerID": 111122223333},
        {"instanceMatchCriteria": "any"},
        {"id": ID, "tags": {"team": "web"}},
        {"id": ID, "ownerID": OWNER},
        {"id": ID, "instanceMatchCriteria": "open"},
    ],
)
def test_invalid_reservation_selector_term_is_rejected(term: dict[str, Any]) -> None:
    assert refused_at(**reservations(term))


@pytest.mark.fact("aws-1.2.5", "Q-1")
@pytest.mark.parametrize(
    "field",
    ["subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms"],
)
def test_tag_rules_of_a_selector_term(field: str) -> None:
    assert accepted(**{field: [{"tags": tagged(20) | {"tag-0": "*"}}]})
    for wrong in (tagged(21), {"team": ""}, {"": "web"}):
        assert refused_at(**{field: [{"tags": wrong}]}) == [f".spec.{field}[0].tags"]


@pytest.mark.fact("aws-1.2.7", "AW-17", "aws-2.1.4")
def test_one_invalid_reservation_selector_term_is_rejected() -> None:
    good, bad = {"tags": {"team": "web"}}, {"id": ID, "tags": {"team": "web"}}
    assert refused_at(**reservations(good, bad)) == [".spec.capacityReservationSelectorTerms"]
    assert refused_at(**reservations(bad, bad)) == [".spec.capacityReservationSelectorTerms"]


@pytest.mark.fact("aws-1.2.7")
def test_subnet_and_security_group_terms_are_rejected_only_if_every_term_is_invalid() -> None:
    tags = {"tags": {"tier": "private"}}
    assert accepted(subnetSelectorTerms=[tags, tags | {"id": "subnet-1"}])
    assert refused_at(subnetSelectorTerms=[tags | {"id": "subnet-1"}])
    assert accepted(securityGroupSelectorTerms=[tags, tags | {"id": "sg-1"}])
    assert refused_at(securityGroupSelectorTerms=[tags | {"id": "sg-1"}])


@pytest.mark.fact("aws-1.2.7", "AW-17")
def test_null_and_empty_reservation_selector_terms_are_accepted() -> None:
    assert accepted(**reservations())
    with_null = nodeclass()
    with_null["spec"]["capacityReservationSelectorTerms"] = None
    assert objects.is_valid(with_null)


@pytest.mark.fact("aws-1.2.8")
def test_an_empty_map_of_tags_passes_the_schema() -> None:
    assert accepted(**reservations({"tags": {}}))


# --- 1.3 Status, and Holdfast's own fields ----------------------------------------------------------


def reservation(**fields: Any) -> dict[str, Any]:
    full = {
        "id": ID,
        "availabilityZone": "us-west-2a",
        "instanceType": "m7i.large",
        "instanceMatchCriteria": "open",
        "ownerID": OWNER,
    }
    return objects.build("EC2NodeClass", {"status": {"capacityReservations": [full | fields]}})


@pytest.mark.fact("aws-1.3.4")
def test_status_has_the_instance_profile() -> None:
    assert schemas.node("EC2NodeClass", "status.instanceProfile")["type"] == "string"


@pytest.mark.fact("aws-1.3.5", "Q-3")
def test_reservation_in_the_status_defaults_to_active_and_type_default() -> None:
    assert objects.is_valid(reservation())
    (filled,) = schemas.defaulted(reservation())["status"]["capacityReservations"]
    assert (filled["reservationType"], filled["state"]) == ("default", "active")


@pytest.mark.fact("aws-1.3.5", "Q-3")
@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("id", [ID], ["x", "cr-"]),
        ("instanceMatchCriteria", ["open", "targeted"], ["any"]),
        ("ownerID", [OWNER], ["self"]),
        ("reservationType", ["default", "capacity-block"], ["ultra"]),
        ("state", ["active", "expiring"], ["expired"]),
        ("interruptible", [True, False], ["true"]),
        ("endTime", ["2026-03-08T11:30:00Z"], ["2026-03-08"]),
    ],
)
def test_field_values_of_a_reservation_in_the_status(field: str, good: list[Any], bad: list[Any]) -> None:
    assert all(objects.is_valid(reservation(**{field: value})) for value in good)
    for value in bad:
        assert objects.refused_at(reservation(**{field: value})) == [
            f".status.capacityReservations[0].{field}"
        ]


@pytest.mark.fact("aws-1.3.5", "Q-3")
def test_required_fields_of_a_reservation_in_the_status() -> None:
    required = schemas.node("EC2NodeClass", "status.capacityReservations[]")["required"]
    assert required == ["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"]


@pytest.mark.fact("aws-1.3.6")
def test_status_conditions_are_keyed_by_type() -> None:
    conditions = schemas.node("EC2NodeClass", "status.conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.fact("aws-1.3.7")
def test_reservations_in_the_status_have_no_instance_counts() -> None:
    fields = schemas.node("EC2NodeClass", "status.capacityReservations[]")["properties"]
    assert not [name for name in fields if "count" in name.lower() or "available" in name.lower()]


@pytest.mark.fact("Q-39")
@pytest.mark.parametrize(
    "direct",
    [
        {"capacityReservationPreference": "open"},
        {"capacityReservationPreference": "none"},
        {"capacityReservationTarget": {"capacityReservationId": ID}},
        {"capacityReservationTarget": {"capacityReservationResourceGroupArn": ARN}},
    ],
)
def test_direct_mode_accepts_one_setting_without_selector_terms(direct: dict[str, Any]) -> None:
    assert accepted(capacityReservationSpec=direct)
    assert refused_at(capacityReservationSpec=direct, **reservations({"id": ID})) == [".spec"]


@pytest.mark.fact("Q-39")
@pytest.mark.parametrize(
    "direct",
    [
        {},
        {"capacityReservationPreference": "capacity-reservations-only"},
        {"capacityReservationTarget": {}},
        {"capacityReservationTarget": {"capacityReservationId": "cr_1"}},
        {"capacityReservationTarget": {"capacityReservationResourceGroupArn": "web"}},
        {
            "capacityReservationTarget": {
                "capacityReservationId": ID,
                "capacityReservationResourceGroupArn": ARN,
            }
        },
        {
            "capacityReservationPreference": "open",
            "capacityReservationTarget": {"capacityReservationId": ID},
        },
    ],
)
def test_direct_mode_rejects_two_settings_or_none(direct: dict[str, Any]) -> None:
    assert refused_at(capacityReservationSpec=direct)
