"""Launch templates: their names, when several are needed, and their reservation settings."""

import dataclasses
from typing import Any

import pytest

from aws_builders import reservation
from aws_launches import (
    AROUND,
    CLUSTER,
    capacity_type,
    claim,
    launch_templates,
    node_config,
    resolved,
    selecting,
    user_data,
)
from builders import requirement
from holdfast import errors
from holdfast.cloud.aws.launch import template_data
from holdfast.cloud.aws.launch.templates import LaunchContext, Template

ON_DEMAND = capacity_type("on-demand")
RESERVED = capacity_type("reserved")
TAGS = {
    "kubernetes.io/cluster/blue": "owned",
    "eks:eks-cluster-name": "blue",
    "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}


def template_of(*args: Any, **fields: Any) -> Template:
    """The template of the cheapest offering."""
    return launch_templates(*args, **fields)[0]


def spec_of(template: Template) -> dict[str, Any] | None:
    found: dict[str, Any] | None = template.data.get("CapacityReservationSpecification")
    return found


def test_reserved_template_equals_karpenters() -> None:
    (template,) = launch_templates(claim(RESERVED), selecting(), reservation("cr-1"))
    data = dict(template.data)
    assert user_data(template)
    data.pop("UserData")
    tags = [{"Key": key, "Value": TAGS[key]} for key in sorted(TAGS)]
    assert data == {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
        },
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"}}
        ],
        "IamInstanceProfile": {"Name": "profile-1"},
        "ImageId": "ami-x86",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "Monitoring": {"Enabled": False},
        "EnclaveOptions": {"Enabled": False},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"]}],
        "Placement": {"Tenancy": "default"},
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": tags}],
    }
    # Karpenter's tags and one more: garbage collection deletes only templates with this tag.
    expected_tags = TAGS | {"holdfast.dev/cluster": "blue"}
    (tagged,) = template.creation()["TagSpecifications"]
    assert tagged["ResourceType"] == "launch-template"
    assert {tag["Key"]: tag["Value"] for tag in tagged["Tags"]} == expected_tags
    (flag,) = node_config(template)["kubelet"]["flags"]
    assert flag == (
        '--node-labels="karpenter.sh/capacity-type=reserved,karpenter.sh/do-not-sync-taints=true,'
        'karpenter.sh/nodepool=default"'
    )


@pytest.mark.fact("aws-5.5.3")
def test_template_name_is_derived_from_its_content() -> None:
    first = template_of(claim(ON_DEMAND), resolved())
    assert template_of(claim(ON_DEMAND, name="another"), resolved()).name == first.name
    prefix, _, number = first.name.partition("/")
    assert prefix == "karpenter.k8s.aws"
    assert 0 <= int(number) < 2**64
    other_templates = [
        template_of(claim(ON_DEMAND), resolved(tags={"team": "ml"})),
        template_of(claim(ON_DEMAND), resolved(detailedMonitoring=True)),
        template_of(claim(ON_DEMAND), resolved(userData="echo mine")),
        template_of(claim(ON_DEMAND), resolved({"securityGroups": [{"id": "sg-3"}]})),
        template_of(claim(ON_DEMAND), selecting()),
        template_of(claim(ON_DEMAND, meta={"labels": {"karpenter.sh/nodepool": "other"}}), resolved()),
        template_of(claim(ON_DEMAND, taints=[{"key": "gpu", "effect": "NoSchedule"}]), resolved()),
    ]
    assert len({first.name, *(template.name for template in other_templates)}) == len(other_templates) + 1


@pytest.mark.fact("Q-21", "aws-5.5.2")
def test_each_reservation_has_a_template_of_its_own() -> None:
    found = launch_templates(
        claim(RESERVED), selecting(), reservation("cr-1"), reservation("cr-2", zone="us-west-2b", available=1)
    )
    targets = [
        template.data["CapacityReservationSpecification"]["CapacityReservationTarget"] for template in found
    ]
    assert targets == [{"CapacityReservationId": "cr-1"}, {"CapacityReservationId": "cr-2"}]
    assert len({template.name for template in found}) == 2


@pytest.mark.fact("Q-25", "aws-5.6.1")
def test_selector_terms_exclude_on_demand_and_spot_from_reservations() -> None:
    for wanted in (ON_DEMAND, capacity_type("spot")):
        assert spec_of(template_of(claim(wanted), selecting())) == {"CapacityReservationPreference": "none"}


@pytest.mark.fact("aws-5.6.1")
def test_class_without_selector_terms_sets_no_reservation_specification() -> None:
    assert spec_of(template_of(claim(ON_DEMAND), resolved())) is None


@pytest.mark.fact("Q-33")
def test_disabled_gate_sets_no_reservation_specification() -> None:
    off = LaunchContext(cluster=CLUSTER, region="us-west-2", reserved_capacity=False)
    assert spec_of(template_of(claim(ON_DEMAND), selecting(), around=off)) is None


@pytest.mark.fact("Q-39", "Q-40")
@pytest.mark.parametrize(
    ("direct", "expected", "setting"),
    [
        (
            {"capacityReservationPreference": "open"},
            {"CapacityReservationPreference": "open"},
            "open",
        ),
        (
            {"capacityReservationPreference": "none"},
            {"CapacityReservationPreference": "none"},
            "none",
        ),
        (
            {"capacityReservationTarget": {"capacityReservationId": "cr-9"}},
            {"CapacityReservationTarget": {"CapacityReservationId": "cr-9"}},
            "target",
        ),
        (
            {"capacityReservationTarget": {"capacityReservationResourceGroupArn": "arn:aws:rg:group/g"}},
            {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": "arn:aws:rg:group/g"}},
            "target",
        ),
    ],
)
def test_direct_mode_copies_the_reservation_spec_to_every_template(
    direct: dict[str, Any], expected: dict[str, Any], setting: str
) -> None:
    found = launch_templates(claim(ON_DEMAND), resolved(capacityReservationSpec=direct))
    assert [spec_of(template) for template in found] == [expected] * len(found)
    assert found[0].tags["karpenter.k8s.aws/capacity-reservation-setting"] == setting


@pytest.mark.fact("aws-5.6.2")
def test_capacity_blocks_and_interruptible_reservations_set_the_market_type() -> None:
    def market(**fields: Any) -> Any:
        return template_of(claim(RESERVED), selecting(), reservation("cr-1", **fields)).data.get(
            "InstanceMarketOptions"
        )

    assert market() is None
    assert market(kind="capacity-block") == {"MarketType": "capacity-block"}
    assert market(interruptible=True) == {"MarketType": "interruptible-capacity-reservation"}
    assert template_of(claim(capacity_type("spot")), resolved()).data.get("InstanceMarketOptions") is None


@pytest.mark.fact("aws-5.5.1")
def test_types_with_different_max_pods_have_different_templates() -> None:
    found = launch_templates(claim(ON_DEMAND), resolved())
    pods = {
        option.instance_type.name: node_config(template)["kubelet"]["config"]["maxPods"]
        for template in found
        for option in template.options
    }
    assert pods == {"m5.large": 29, "m5.xlarge": 58}


def test_no_image_for_any_type_is_insufficient_capacity() -> None:
    only_arm = {"amis": [{"id": "ami-1", "requirements": [requirement("kubernetes.io/arch", "In", "arm64")]}]}
    with pytest.raises(errors.InsufficientCapacity, match="no image"):
        launch_templates(claim(ON_DEMAND), resolved(only_arm))


def test_unresolved_ec2nodeclass_is_not_ready() -> None:
    with pytest.raises(errors.NotReady, match="no images"):
        launch_templates(claim(ON_DEMAND), resolved({"amis": []}))


@pytest.mark.fact("aws-5.6.8")
def test_volumes_are_rounded_up_to_whole_gibibytes() -> None:
    volumes = [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "10G", "volumeType": "io2", "iops": 100}},
        {"deviceName": "/dev/xvdb", "ebs": {"snapshotID": "snap-1"}},
    ]
    assert template_of(claim(ON_DEMAND), resolved(blockDeviceMappings=volumes)).data[
        "BlockDeviceMappings"
    ] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"Iops": 100, "VolumeSize": 10, "VolumeType": "io2"}},
        {"DeviceName": "/dev/xvdb", "Ebs": {"SnapshotId": "snap-1"}},
    ]
    bottlerocket = resolved(amiFamily="Bottlerocket", amiSelectorTerms=[{"id": "ami-x86"}])
    sizes = [
        (device["DeviceName"], device["Ebs"]["VolumeSize"])
        for device in template_of(claim(ON_DEMAND), bottlerocket).data["BlockDeviceMappings"]
    ]
    assert sizes == [("/dev/xvda", 4), ("/dev/xvdb", 20)]
    custom = resolved(amiFamily="Custom", amiSelectorTerms=[{"id": "ami-x86"}])
    assert "BlockDeviceMappings" not in template_of(claim(ON_DEMAND), custom).data


@pytest.mark.fact("aws-5.6.5")
def test_network_interfaces_are_those_of_the_ec2nodeclass() -> None:
    listed = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    node_class = resolved(associatePublicIPAddress=True, ipPrefixCount=2, networkInterfaces=listed)
    # No instance type of these tests has EFAs, so the test calls network_interfaces() and launches nothing.
    groups = ["sg-1"]
    assert template_data.network_interfaces(node_class.spec, groups, 0, ipv6=False) == [
        {
            "Groups": groups,
            "AssociatePublicIpAddress": True,
            "Ipv4PrefixCount": 2,
            "NetworkCardIndex": 0,
            "DeviceIndex": 0,
            "InterfaceType": "interface",
        },
        {"Groups": groups, "NetworkCardIndex": 0, "DeviceIndex": 1, "InterfaceType": "efa-only"},
    ]


def test_each_requested_efa_is_a_network_interface() -> None:
    found = template_data.network_interfaces(resolved().spec, ["sg-1"], 2, ipv6=True)
    assert [(nic["InterfaceType"], nic["NetworkCardIndex"], nic["DeviceIndex"]) for nic in found] == [
        ("efa", 0, 0),
        ("efa", 1, 1),
    ]
    assert [nic.get("PrimaryIpv6") for nic in found] == [True, None]


@pytest.mark.fact("aws-8.2.4")
def test_an_ipv6_cluster_gives_nodes_an_ipv6_address() -> None:
    cluster = dataclasses.replace(CLUSTER, service_cidr="fd00::/108", ipv6=True)
    template = template_of(
        claim(ON_DEMAND), resolved(), around=LaunchContext(cluster=cluster, region="us-west-2")
    )
    (interface,) = template.data["NetworkInterfaces"]
    assert (interface["PrimaryIpv6"], interface["Ipv6AddressCount"]) == (True, 1)


@pytest.mark.fact("aws-5.6.4")
def test_isolated_regions_omit_the_ipv6_metadata_option() -> None:
    around = LaunchContext(cluster=CLUSTER, region="us-iso-east-1")
    options = template_of(claim(ON_DEMAND), resolved(), around=around).data["MetadataOptions"]
    assert "HttpProtocolIpv6" not in options
    assert (
        "HttpProtocolIpv6" in template_of(claim(ON_DEMAND), resolved(), around=AROUND).data["MetadataOptions"]
    )


@pytest.mark.fact("aws-5.6.6")
def test_spot_requests_are_tagged_too() -> None:
    kinds = [
        spec["ResourceType"]
        for spec in template_of(claim(capacity_type("spot")), resolved()).data["TagSpecifications"]
    ]
    assert kinds == ["network-interface", "spot-instances-request"]


@pytest.mark.fact("aws-5.6.7")
def test_nitro_sandbox_requirement_enables_enclaves() -> None:
    sandbox = requirement("eks.amazonaws.com/nitro-sandbox", "In", "true")
    nodeclaim = claim(ON_DEMAND, sandbox, requirement("node.kubernetes.io/instance-type", "In", "m5.xlarge"))
    assert template_of(nodeclaim, resolved()).data["EnclaveOptions"] == {"Enabled": True}


@pytest.mark.fact("aws-5.3.2")
def test_dedicated_tenancy_is_used_only_if_default_is_excluded() -> None:
    def tenancy(*values: str) -> str:
        wanted = requirement("karpenter.k8s.aws/instance-tenancy", "In", *values)
        placement: dict[str, str] = template_of(claim(ON_DEMAND, wanted), resolved()).data["Placement"]
        return placement["Tenancy"]

    assert tenancy("default", "dedicated") == "default"
    assert tenancy("dedicated") == "dedicated"


@pytest.mark.fact("aws-8.2.3")
@pytest.mark.parametrize(
    ("family", "has_label"), [("AL2023", True), ("AL2", True), ("Bottlerocket", True), ("Custom", False)]
)
def test_every_family_except_custom_sets_the_do_not_sync_taints_label(
    family: str, *, has_label: bool
) -> None:
    images = [{"id": "ami-0123456789"}]
    node_class = resolved(amiFamily=family, amiSelectorTerms=images, userData=None)
    template = template_of(claim(ON_DEMAND), node_class)
    text = user_data(template) if "UserData" in template.data else ""
    assert ("karpenter.sh/do-not-sync-taints" in text) == has_label


@pytest.mark.fact("aws-8.2.4")
@pytest.mark.parametrize("dns_ip", ["10.96.0.10", None])
def test_cluster_dns_defaults_to_the_dns_ip_of_the_cluster(dns_ip: str | None) -> None:
    around = dataclasses.replace(AROUND, cluster=dataclasses.replace(AROUND.cluster, dns_ip=dns_ip))
    template = template_of(claim(ON_DEMAND), resolved(), around=around)
    config = node_config(template)["kubelet"]["config"]
    assert config.get("clusterDNS") == ([dns_ip] if dns_ip else None)
    assert "PrimaryIpv6" not in template.data["NetworkInterfaces"][0]


@pytest.mark.fact("aws-8.2.1")
def test_new_node_registers_with_the_unregistered_taint() -> None:
    nodeclaim = claim(
        ON_DEMAND,
        taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        startupTaints=[{"key": "cni", "effect": "NoExecute"}],
    )
    taints = node_config(template_of(nodeclaim, resolved()))["kubelet"]["config"]["registerWithTaints"]
    assert [taint["key"] for taint in taints] == ["gpu", "cni", "karpenter.sh/unregistered"]


@pytest.mark.fact("aws-5.5.6")
def test_user_data_above_the_ec2_limit_is_invalid_input() -> None:
    with pytest.raises(errors.InvalidInput, match="16384"):
        launch_templates(claim(ON_DEMAND), resolved(userData="#" * 16384))
