"""Capacity of instance types, compared with numbers that real nodes report."""

from typing import Any

import pytest

from aws_builders import invented, real
from builders import ec2nodeclass
from holdfast.cloud.aws.catalog import capacity, families, node_shape
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.data.ec2 import Gpu, InstanceTypeInfo, NeuronDevice
from holdfast.model.resources import Resources

MIB = 2**20
GIB = 2**30
WINDOWS = "windows2022@latest"
BOTTLEROCKET = "bottlerocket@latest"


def capacity_of(info: InstanceTypeInfo, settings: Settings | None = None, **spec: Any) -> Resources:
    if "alias" in spec:
        spec["amiSelectorTerms"] = [{"alias": spec.pop("alias")}]
    return capacity.capacity(info, node_shape.of(ec2nodeclass(**spec)), settings or Settings())


@pytest.mark.fact("aws-7.3.1")
@pytest.mark.parametrize(("name", "vcpus"), [("m5.large", 2), ("c5.xlarge", 4), ("p5.48xlarge", 192)])
def test_cpu_is_the_default_number_of_vcpus(name: str, vcpus: int) -> None:
    assert capacity_of(real(name))["cpu"] == vcpus * 1000


# No mark for aws-7.3.2: the test shows it in part, because it records no capacity of a real node.
@pytest.mark.parametrize(
    ("name", "mib"),
    [("m5.large", 8192 - 615), ("t3.micro", 1024 - 77), ("c6g.large", 4096 - 64 - 303)],
)
def test_memory_excludes_vm_overhead_and_64_mib_on_arm64(name: str, mib: int) -> None:
    assert capacity_of(real(name))["memory"] == mib * MIB


def test_the_memory_overhead_is_a_setting() -> None:
    assert capacity_of(real("m5.large"), Settings(vm_memory_overhead_percent=0))["memory"] == 8192 * MIB
    assert (
        capacity_of(real("m5.large"), Settings(vm_memory_overhead_percent=0.1))["memory"]
        == (8192 - 820) * MIB
    )


@pytest.mark.fact("aws-7.3.5")
@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("m5.large", 29),
        ("c5.xlarge", 58),
        ("t3.micro", 4),
        ("t3.medium", 17),
        ("m5.4xlarge", 234),
        ("p5.48xlarge", 100),
    ],
)
def test_pods_are_limited_by_addresses_on_the_default_network_card(name: str, pods: int) -> None:
    assert capacity_of(real(name))["pods"] == pods


@pytest.mark.fact("aws-7.3.5")
def test_reserved_and_efa_only_interfaces_add_no_pod_addresses() -> None:
    efa_only = [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]
    assert capacity_of(real("m5.large"), Settings(reserved_enis=1))["pods"] == 2 * 9 + 2
    assert capacity_of(real("m5.large"), Settings(reserved_enis=3))["pods"] == 0
    assert capacity_of(real("m5.large"), Settings(reserved_enis=9))["pods"] == 0
    assert capacity_of(real("p5.48xlarge"), networkInterfaces=efa_only)["pods"] == 1 * 49 + 2


@pytest.mark.fact("aws-7.3.4")
def test_pods_follow_from_kubelet_settings_and_ami_family() -> None:
    m5 = real("m5.large")
    assert capacity_of(m5, kubelet={"maxPods": 110})["pods"] == 110
    assert capacity_of(m5, kubelet={"maxPods": 0})["pods"] == 0
    assert capacity_of(m5, alias=WINDOWS)["pods"] == 110
    assert capacity_of(m5, kubelet={"podsPerCore": 10})["pods"] == 20
    assert capacity_of(m5, kubelet={"podsPerCore": 50})["pods"] == 29
    assert capacity_of(m5, kubelet={"podsPerCore": 10, "maxPods": 15})["pods"] == 15
    assert capacity_of(m5, kubelet={"podsPerCore": 10}, alias=BOTTLEROCKET)["pods"] == 29


def device(name: str, size: str | None, *, root: bool = False) -> dict[str, Any]:
    volume: dict[str, Any] = {"volumeSize": size} if size else {"snapshotID": "snap-1"}
    return {"deviceName": name, "ebs": volume, **({"rootVolume": True} if root else {})}


@pytest.mark.fact("aws-7.3.3")
@pytest.mark.parametrize(
    ("spec", "size_bytes"),
    [
        ({}, 20 * GIB),
        ({"alias": BOTTLEROCKET}, 20 * GIB),
        ({"alias": WINDOWS}, 50 * GIB),
        ({"amiFamily": "Custom"}, 20 * GIB),
        ({"blockDeviceMappings": [device("/dev/xvda", "100Gi")]}, 100 * GIB),
        ({"blockDeviceMappings": [device("/dev/xvdb", "100Gi")]}, 20 * GIB),
        ({"blockDeviceMappings": [device("/dev/xvda", None)]}, 20 * GIB),
        (
            {"blockDeviceMappings": [device("/dev/xvda", "4G"), device("/dev/xvdc", "7G", root=True)]},
            7 * 10**9,
        ),
        (
            {
                "alias": BOTTLEROCKET,
                "blockDeviceMappings": [device("/dev/xvda", "4Gi"), device("/dev/xvdb", "80Gi")],
            },
            80 * GIB,
        ),
        (
            {
                "amiFamily": "Custom",
                "blockDeviceMappings": [device("/dev/a", "4Gi"), device("/dev/b", "80Gi")],
            },
            80 * GIB,
        ),
        ({"instanceStorePolicy": "RAID0"}, 20 * GIB),
    ],
)
def test_ephemeral_storage_is_the_volume_that_pods_write_to(spec: dict[str, Any], size_bytes: int) -> None:
    assert capacity_of(real("m5.large"), **spec)["ephemeral-storage"] == size_bytes


@pytest.mark.fact("aws-7.3.3")
def test_raid0_policy_makes_ephemeral_storage_the_instance_store() -> None:
    spec: dict[str, Any] = {
        "instanceStorePolicy": "RAID0",
        "blockDeviceMappings": [device("/dev/xvda", "100Gi")],
    }
    assert capacity_of(real("p5.48xlarge"), **spec)["ephemeral-storage"] == 30400 * 10**9


@pytest.mark.fact("aws-7.3.6")
def test_gpus_neuron_devices_efas_and_branch_enis_are_resources() -> None:
    p5 = capacity_of(real("p5.48xlarge"))
    assert (p5["nvidia.com/gpu"], p5["vpc.amazonaws.com/efa"]) == (8, 32)
    trn1 = capacity_of(real("trn1.32xlarge"))
    assert (trn1["aws.amazon.com/neuron"], trn1["aws.amazon.com/neuroncore"]) == (16, 32)
    inf1 = capacity_of(real("inf1.xlarge"))
    assert (inf1["aws.amazon.com/neuron"], inf1["aws.amazon.com/neuroncore"]) == (1, 4)
    mixed_devices = capacity_of(
        invented(
            gpus=(Gpu("V520", "AMD", 2, 1), Gpu("Gaudi", "Habana", 8, 1)),
            neuron_devices=(NeuronDevice("a", 2, 3), NeuronDevice("b", 1, 1)),
            branch_enis=9,
        )
    )
    assert (mixed_devices["amd.com/gpu"], mixed_devices["habana.ai/gaudi"]) == (2, 8)
    assert (mixed_devices["aws.amazon.com/neuron"], mixed_devices["aws.amazon.com/neuroncore"]) == (3, 7)
    assert mixed_devices["vpc.amazonaws.com/pod-eni"] == 9


@pytest.mark.fact("aws-7.3.6")
def test_efa_count_follows_the_network_interfaces_of_the_ec2nodeclass() -> None:
    ordinary = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    efa_only = [{"networkCardIndex": n, "deviceIndex": 1, "interfaceType": "efa-only"} for n in range(4)]
    assert (
        capacity_of(real("p5.48xlarge"), networkInterfaces=[ordinary, *efa_only])["vpc.amazonaws.com/efa"]
        == 4
    )
    assert "vpc.amazonaws.com/efa" not in capacity_of(real("p5.48xlarge"), networkInterfaces=[ordinary])


@pytest.mark.fact("aws-7.3.6")
def test_private_ipv4_addresses_are_a_resource_on_windows() -> None:
    assert capacity_of(real("m5.large"), alias=WINDOWS)["vpc.amazonaws.com/PrivateIPv4Address"] == 9
    assert "vpc.amazonaws.com/PrivateIPv4Address" not in capacity_of(real("m5.large"))


def test_missing_devices_are_not_resources() -> None:
    assert set(capacity_of(real("m5.large"))) == {"cpu", "memory", "ephemeral-storage", "pods"}


def test_ami_family_is_the_spec_field_or_that_of_the_alias() -> None:
    assert families.of(None).name == "AL2023"
    assert families.of(ec2nodeclass()).name == "AL2023"
    assert families.of(ec2nodeclass(amiFamily="Custom")).name == "Custom"
    ids = [{"id": "ami-1"}]
    assert families.of(ec2nodeclass(amiSelectorTerms=ids, amiFamily="Bottlerocket")).name == "Bottlerocket"
