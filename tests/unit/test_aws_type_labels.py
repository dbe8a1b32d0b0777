"""The labels of instance types."""

from typing import Any

import pytest

from aws_builders import invented, real
from builders import ec2nodeclass
from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws.catalog import instance_types, node_shape, type_labels
from holdfast.cloud.aws.catalog.instance_types import Availability
from holdfast.data import ec2
from holdfast.data.ec2 import Accelerator, Gpu, InstanceTypeInfo, NeuronDevice, Zone
from holdfast.model.requirement import Operator
from holdfast.model.requirements import Requirements

AVAILABILITY = Availability("us-west-2", (Zone("us-west-2a", "usw2-az2"),), ("on-demand", "spot"))


def labels(info: InstanceTypeInfo, availability: Availability = AVAILABILITY, **spec: Any) -> Requirements:
    return instance_types.type_requirements(info, node_shape.of(ec2nodeclass(**spec)), availability)


def label(info: InstanceTypeInfo, key: str, **spec: Any) -> str | None:
    """The only value of a label, or None if the label does not exist."""
    found = labels(info, **spec)
    assert key in found, f"{key} has no requirement"
    values = found.get(key).values
    assert len(values) <= 1
    assert values or found.get(key).operator is Operator.DOES_NOT_EXIST
    return next(iter(values), None)


@pytest.mark.fact("aws-7.2.1")
def test_well_known_labels_of_kubernetes_and_karpenter() -> None:
    found = labels(real("m5.large"))
    for key, values in {
        names.INSTANCE_TYPE: {"m5.large"},
        names.ARCH: {"amd64"},
        names.OS: {"linux"},
        names.REGION: {"us-west-2"},
        names.ZONE: {"us-west-2a"},
        names.CAPACITY_TYPE: {"on-demand", "spot"},
        names.WINDOWS_BUILD: set(),
        aws.INSTANCE_TENANCY: {"default", "dedicated"},
    }.items():
        assert key in found
        assert found.get(key).values == values, key
    assert label(real("c6g.large"), names.ARCH) == "arm64"
    assert label(real("t2.micro"), names.ARCH) == "amd64"  # the first architecture that Kubernetes supports


@pytest.mark.fact("aws-7.2.1")
def test_windows_requires_amd64() -> None:
    windows = {"amiSelectorTerms": [{"alias": "windows2022@latest"}]}
    assert label(real("m5.large"), names.OS, **windows) == "windows"
    assert label(real("m5.large"), names.WINDOWS_BUILD, **windows) == "10.0.20348"
    assert label(real("c6g.large"), names.OS, **windows) is None


@pytest.mark.fact("aws-7.2.2")
@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("m5.large", aws.INSTANCE_CPU, "2"),
        ("m5.large", aws.INSTANCE_CPU_MANUFACTURER, "intel"),
        ("c6g.large", aws.INSTANCE_CPU_MANUFACTURER, "aws"),
        ("m5.large", aws.INSTANCE_CPU_CLOCK, "3100"),
        ("m5.large", aws.INSTANCE_MEMORY, "8192"),
        ("m5.large", aws.INSTANCE_EBS_BANDWIDTH, "4750"),
        ("m3.large", aws.INSTANCE_EBS_BANDWIDTH, None),  # EBS-optimized only on request
        ("m5.large", aws.INSTANCE_NETWORK_BANDWIDTH, "750"),
        ("g4dn.8xlarge", aws.INSTANCE_NETWORK_BANDWIDTH, "50000"),
        ("p5.48xlarge", aws.INSTANCE_NETWORK_BANDWIDTH, "3200000"),
        ("m5.large", aws.INSTANCE_LOCAL_NVME, None),
        ("g4dn.8xlarge", aws.INSTANCE_LOCAL_NVME, "900"),
        ("m5.large", aws.INSTANCE_CAPABILITY_FLEX, "false"),
        ("m7i-flex.large", aws.INSTANCE_CAPABILITY_FLEX, "true"),
        ("g4dn.8xlarge", aws.INSTANCE_GPU_NAME, "t4"),
        ("g4dn.8xlarge", aws.INSTANCE_GPU_MANUFACTURER, "nvidia"),
        ("g4dn.8xlarge", aws.INSTANCE_GPU_COUNT, "1"),
        ("g4dn.8xlarge", aws.INSTANCE_GPU_MEMORY, "16384"),
        ("p5.48xlarge", aws.INSTANCE_GPU_COUNT, "8"),
        ("m5.large", aws.INSTANCE_GPU_COUNT, None),
        ("inf1.2xlarge", aws.INSTANCE_ACCELERATOR_NAME, "inferentia"),
        ("inf1.2xlarge", aws.INSTANCE_ACCELERATOR_MANUFACTURER, "aws"),
        ("inf1.2xlarge", aws.INSTANCE_ACCELERATOR_COUNT, "1"),
        ("trn1.32xlarge", aws.INSTANCE_ACCELERATOR_NAME, "trainium"),
        ("trn1.32xlarge", aws.INSTANCE_ACCELERATOR_COUNT, "16"),
        ("m5.large", aws.INSTANCE_ACCELERATOR_NAME, None),
        ("m5.large", aws.INSTANCE_HYPERVISOR, "nitro"),
        ("m5.metal", aws.INSTANCE_HYPERVISOR, None),
        ("g4dn.8xlarge", aws.INSTANCE_ENCRYPTION_IN_TRANSIT, "true"),
        ("m5.large", aws.INSTANCE_ENCRYPTION_IN_TRANSIT, "false"),
        ("m6i.xlarge", type_labels.NITRO_SANDBOX, "true"),
        ("m5.large", type_labels.NITRO_SANDBOX, "false"),
        ("m5.large", aws.ZONE_ID, "usw2-az2"),
    ],
)
def test_aws_labels(name: str, key: str, value: str | None) -> None:
    assert label(real(name), key) == value


@pytest.mark.fact("aws-7.2.2")
def test_gpu_and_accelerator_labels_exist_only_with_one_kind_of_device() -> None:
    a, b = Gpu("A", "NVIDIA", 1, 1), Gpu("B", "NVIDIA", 1, 1)
    assert label(invented(gpus=(a, b)), aws.INSTANCE_GPU_NAME) is None
    two = (NeuronDevice("a", 1, 1), NeuronDevice("b", 1, 1))
    assert label(invented(neuron_devices=two), aws.INSTANCE_ACCELERATOR_NAME) is None
    other = invented(accelerators=(Accelerator("Qualcomm AI100", "Qualcomm", 8),))
    assert label(other, aws.INSTANCE_ACCELERATOR_NAME) == "qualcomm-ai100"
    assert label(other, aws.INSTANCE_ACCELERATOR_MANUFACTURER) == "qualcomm"


@pytest.mark.fact("aws-7.2.3")
@pytest.mark.parametrize(
    ("name", "category", "generation", "family", "size"),
    [
        ("m5.large", "m", "5", "m5", "large"),
        ("c7i-flex.xlarge", "c", "7", "c7i-flex", "xlarge"),
        ("u-6tb1.56xlarge", "u", "1", "u-6tb1", "56xlarge"),
        ("u7i-12tb.224xlarge", "u", "7", "u7i-12tb", "224xlarge"),
        ("im4gn.large", "im", "4", "im4gn", "large"),
        ("p6-b200.48xlarge", "p", "6", "p6-b200", "48xlarge"),
        ("hpc7g.16xlarge", "hpc", "7", "hpc7g", "16xlarge"),
    ],
)
def test_category_generation_family_and_size_come_from_the_name(
    name: str, category: str, generation: str, family: str, size: str
) -> None:
    keys = (aws.INSTANCE_CATEGORY, aws.INSTANCE_GENERATION, aws.INSTANCE_FAMILY, aws.INSTANCE_SIZE)
    info = invented(name=name)
    assert tuple(label(info, key) for key in keys) == (category, generation, family, size)


@pytest.mark.fact("aws-7.2.3")
def test_label_values_are_lower_case_with_dashes_and_unknown_ones_do_not_exist() -> None:
    info = invented(gpus=(Gpu("RTX PRO Server 6000", "NVIDIA", 1, 98304),))
    assert label(info, aws.INSTANCE_GPU_NAME) == "rtx-pro-server-6000"
    for key in (aws.INSTANCE_CPU_CLOCK, aws.INSTANCE_CPU_MANUFACTURER, aws.INSTANCE_NETWORK_BANDWIDTH):
        assert label(info, key) is None


def test_every_shipped_type_has_every_label() -> None:
    expected_keys = {*aws.SELECTABLE_LABELS, aws.ZONE_ID, *names.WELL_KNOWN_LABELS}
    expected_keys -= {names.NODEPOOL, aws.EC2NODECLASS}
    for region in ec2.region_names():
        for info in ec2.region(region).types:
            found = labels(info)
            assert expected_keys <= set(found.by_key), info.name
            for key in (names.ARCH, aws.INSTANCE_CATEGORY, aws.INSTANCE_GENERATION, aws.INSTANCE_SIZE):
                assert found.get(key).operator is Operator.IN, info.name
