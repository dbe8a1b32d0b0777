"""Overhead: the resources of a node that pods cannot use."""

from typing import Any

import pytest

from aws_builders import real, shipped_supply
from builders import ec2nodeclass
from holdfast import errors
from holdfast.cloud.aws.catalog import builder, capacity, node_shape, overhead
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.catalog.overhead import Overhead
from holdfast.model import resources

MIB = 2**20
GIB = 2**30


def overhead_of(name: str, settings: Settings | None = None, **spec: Any) -> Overhead:
    shape = node_shape.of(ec2nodeclass(**spec))
    info = real(name)
    return overhead.overhead(info, shape, capacity.capacity(info, shape, settings or Settings()))


@pytest.mark.fact("aws-7.4.1")
@pytest.mark.parametrize(
    ("name", "pods"), [("m5.large", 29), ("c5.xlarge", 58), ("t3.micro", 4), ("m5.4xlarge", 234)]
)
def test_kube_reserved_memory_grows_with_pod_addresses(name: str, pods: int) -> None:
    assert overhead_of(name).kube_reserved["memory"] == (11 * pods + 255) * MIB
    assert overhead_of(name).kube_reserved["ephemeral-storage"] == GIB


@pytest.mark.fact("aws-7.4.1")
def test_kube_reserved_memory_follows_max_pods_on_bottlerocket_and_windows() -> None:
    few: dict[str, Any] = {"kubelet": {"maxPods": 10}}
    assert overhead_of("m5.large", **few).kube_reserved["memory"] == (11 * 29 + 255) * MIB
    assert overhead_of("m5.large", Settings(reserved_enis=2)).kube_reserved["memory"] == (11 * 29 + 255) * MIB
    for alias in ("bottlerocket@latest", "windows2022@latest"):
        reserved = overhead_of("m5.large", amiSelectorTerms=[{"alias": alias}], **few).kube_reserved
        assert reserved["memory"] == (11 * 10 + 255) * MIB
    custom = overhead_of(
        "m5.large", amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}], **few
    ).kube_reserved
    assert custom["memory"] == (11 * 29 + 255) * MIB


@pytest.mark.fact("aws-7.4.1")
@pytest.mark.parametrize(
    ("name", "millis"),
    [
        ("m6g.medium", 60),
        ("m5.large", 70),
        ("m5.xlarge", 80),
        ("m5.2xlarge", 90),
        ("m5.4xlarge", 110),
        ("m5.24xlarge", 310),
        ("p5.48xlarge", 550),
    ],
)
def test_kube_reserved_cpu_follows_from_the_number_of_cores(name: str, millis: int) -> None:
    assert overhead_of(name).kube_reserved["cpu"] == millis


@pytest.mark.fact("aws-7.4.1")
def test_kube_reserved_of_the_ec2nodeclass_replaces_defaults_per_resource() -> None:
    reserved = overhead_of("m5.large", kubelet={"kubeReserved": {"cpu": "200m", "pid": "100"}}).kube_reserved
    assert reserved == resources.of({"cpu": 200, "memory": 574 * MIB, "ephemeral-storage": GIB, "pid": 100})


@pytest.mark.fact("aws-7.4.2")
def test_system_reserved_is_only_what_the_ec2nodeclass_sets() -> None:
    assert not overhead_of("m5.large").system_reserved.amounts
    reserved = overhead_of("m5.large", kubelet={"systemReserved": {"memory": "1Gi"}}).system_reserved
    assert reserved == resources.of({"memory": GIB})


@pytest.mark.fact("aws-7.4.3")
@pytest.mark.parametrize(
    ("hard", "memory", "storage"),
    [
        ({}, 100 * MIB, 2 * GIB),
        ({"memory.available": "500Mi"}, 500 * MIB, 2 * GIB),
        ({"memory.available": "5%"}, 397253018, 2 * GIB),  # of 7577 MiB, rounded up
        ({"memory.available": "100%"}, 0, 2 * GIB),
        ({"nodefs.available": "1Gi"}, 100 * MIB, GIB),
        ({"nodefs.available": "12.5%"}, 100 * MIB, 20 * GIB // 8),
        ({"nodefs.available": "100%", "memory.available": "0"}, 0, 0),
        ({"imagefs.available": "50%"}, 100 * MIB, 2 * GIB),
    ],
)
def test_eviction_threshold_is_that_of_eviction_hard(hard: dict[str, str], memory: int, storage: int) -> None:
    soft = {"memory.available": "50%", "nodefs.available": "50%"}
    threshold = overhead_of(
        "m5.large", kubelet={"evictionHard": hard, "evictionSoft": soft}
    ).eviction_threshold
    assert threshold == resources.of({"memory": memory, "ephemeral-storage": storage})


@pytest.mark.fact("aws-7.4.3")
def test_default_storage_eviction_threshold_is_ten_percent_rounded_up() -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "21G"}}]
    assert (
        overhead_of("m5.large", blockDeviceMappings=devices).eviction_threshold["ephemeral-storage"]
        == 21 * 10**8
    )
    odd = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "1Gi"}}]
    assert (
        overhead_of("m5.large", blockDeviceMappings=odd).eviction_threshold["ephemeral-storage"] == 107374183
    )


@pytest.mark.fact("aws-7.4.4")
def test_allocatable_is_capacity_minus_overhead() -> None:
    kubelet = {"systemReserved": {"cpu": "100m", "memory": "100Mi"}}
    built = builder.build(shipped_supply(), ec2nodeclass(kubelet=kubelet), now_s=0)
    m5 = next(it for it in built if it.name == "m5.large")
    assert m5.allocatable == resources.of(
        {
            "cpu": 2000 - 70 - 100,
            "memory": (8192 - 615 - 574 - 100 - 100) * MIB,
            "ephemeral-storage": (20 - 1 - 2) * GIB,
            "pods": 29,
        }
    )


@pytest.mark.parametrize(
    ("kubelet", "words"),
    [
        ({"maxPods": "vcpus * 10"}, "spec.kubelet.maxPods 'vcpus .*expressions are not supported"),
        ({"maxPods": -1}, "spec.kubelet.maxPods -1 is not a whole number"),
        ({"podsPerCore": True}, "spec.kubelet.podsPerCore True"),
        ({"kubeReserved": {"cpu": "vcpus * 10"}}, "spec.kubelet.kubeReserved.cpu: .*expressions are not"),
        ({"systemReserved": ["cpu"]}, "spec.kubelet.systemReserved is not a map"),
        ({"evictionHard": {"memory.available": "lots"}}, "spec.kubelet.evictionHard.memory.available: "),
    ],
)
def test_invalid_kubelet_field_is_reported_with_its_path(kubelet: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        node_shape.of(ec2nodeclass(kubelet=kubelet))
