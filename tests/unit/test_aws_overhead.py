"""What of a node pods cannot have."""

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


def of(name: str, settings: Settings | None = None, **spec: Any) -> Overhead:
    shape = node_shape.of(ec2nodeclass(**spec))
    info = real(name)
    return overhead.overhead(info, shape, capacity.capacity(info, shape, settings or Settings()))


@pytest.mark.fact("aws-7.4.1")
@pytest.mark.parametrize(
    ("name", "pods"), [("m5.large", 29), ("c5.xlarge", 58), ("t3.micro", 4), ("m5.4xlarge", 234)]
)
def test_the_kubelet_keeps_memory_for_every_pod_that_gets_an_address(name: str, pods: int) -> None:
    assert of(name).kube_reserved["memory"] == (11 * pods + 255) * MIB
    assert of(name).kube_reserved["ephemeral-storage"] == GIB


@pytest.mark.fact("aws-7.4.1")
def test_of_some_families_it_is_for_every_pod_that_may_run() -> None:
    few: dict[str, Any] = {"kubelet": {"maxPods": 10}}
    assert of("m5.large", **few).kube_reserved["memory"] == (11 * 29 + 255) * MIB
    assert of("m5.large", Settings(reserved_enis=2)).kube_reserved["memory"] == (11 * 29 + 255) * MIB
    for alias in ("bottlerocket@latest", "windows2022@latest"):
        kept = of("m5.large", amiSelectorTerms=[{"alias": alias}], **few).kube_reserved
        assert kept["memory"] == (11 * 10 + 255) * MIB
    custom = of("m5.large", amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}], **few).kube_reserved
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
def test_the_kubelet_keeps_less_of_each_further_core(name: str, millis: int) -> None:
    assert of(name).kube_reserved["cpu"] == millis


@pytest.mark.fact("aws-7.4.1")
def test_what_the_class_reserves_replaces_the_default_resource_by_resource() -> None:
    kept = of("m5.large", kubelet={"kubeReserved": {"cpu": "200m", "pid": "100"}}).kube_reserved
    assert kept == resources.of({"cpu": 200, "memory": 574 * MIB, "ephemeral-storage": GIB, "pid": 100})


@pytest.mark.fact("aws-7.4.2")
def test_the_system_keeps_only_what_the_class_says() -> None:
    assert not of("m5.large").system_reserved.amounts
    kept = of("m5.large", kubelet={"systemReserved": {"memory": "1Gi"}}).system_reserved
    assert kept == resources.of({"memory": GIB})


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
def test_the_eviction_line_is_the_hard_one(hard: dict[str, str], memory: int, storage: int) -> None:
    soft = {"memory.available": "50%", "nodefs.available": "50%"}
    kept = of("m5.large", kubelet={"evictionHard": hard, "evictionSoft": soft}).eviction_threshold
    assert kept == resources.of({"memory": memory, "ephemeral-storage": storage})


@pytest.mark.fact("aws-7.4.3")
def test_a_tenth_of_storage_is_rounded_up() -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "21G"}}]
    assert of("m5.large", blockDeviceMappings=devices).eviction_threshold["ephemeral-storage"] == 21 * 10**8
    odd = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "1Gi"}}]
    assert of("m5.large", blockDeviceMappings=odd).eviction_threshold["ephemeral-storage"] == 107374183


@pytest.mark.fact("aws-7.4.4")
def test_allocatable_is_capacity_less_all_three() -> None:
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
def test_what_cannot_be_read_is_named_with_its_place(kubelet: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        node_shape.of(ec2nodeclass(kubelet=kubelet))
