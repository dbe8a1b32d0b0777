"""Problems of an EC2NodeClass that the API server does not reject."""

from typing import Any

import pytest

from builders import ec2nodeclass
from holdfast.cloud.aws.nodeclass import class_checks
from holdfast.cloud.aws.nodeclass.class_checks import INVALID_KUBELET, INVALID_TAGS, UNSUPPORTED_KUBELET

BOTTLEROCKET = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
AL2 = {"amiSelectorTerms": [{"alias": "al2@latest"}]}


def reason(**spec: Any) -> str | None:
    found = class_checks.problem(ec2nodeclass(**spec))
    return found.reason if found else None


@pytest.mark.fact("aws-1.5.2")
@pytest.mark.parametrize(
    ("kubelet", "words"),
    [
        ({"registerWithTaints": []}, "registerWithTaints"),
        ({"evictionHard": {"disk.available": "5%"}}, "disk.available"),
        ({"evictionHard": {"memory.available": "101%"}}, "101%"),
        ({"evictionHard": {"memory.available": "-5Mi"}}, "-5Mi"),
        ({"evictionSoft": {"memory.available": "5%"}}, "evictionSoftGracePeriod"),
        ({"evictionSoftGracePeriod": {"memory.available": "1m"}}, "evictionSoft"),
        ({"kubeReserved": {"gpu": "1"}}, "gpu"),
        ({"systemReserved": {"cpu": "-1"}}, "negative"),
        ({"imageGCHighThresholdPercent": 101}, "0 to 100"),
        ({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}, "above"),
        ({"podsPerCore": -1}, "negative"),
        ({"evictionMaxPodGracePeriod": -1}, "negative"),
        ({"maxPods": -1}, "maxPods"),
    ],
)
def test_invalid_kubelet_setting_is_reported(kubelet: dict[str, Any], words: str) -> None:
    found = class_checks.problem(ec2nodeclass(kubelet=kubelet))
    assert found is not None
    assert found.reason == INVALID_KUBELET
    assert words in found.message


@pytest.mark.fact("aws-1.5.2")
def test_valid_kubelet_settings_are_accepted() -> None:
    kubelet = {
        "maxPods": 40,
        "podsPerCore": 0,
        "clusterDNS": ["10.0.0.10", "10.0.0.11"],
        "kubeReserved": {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi", "pid": "100"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "100%", "pid.available": "10"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "someSettingOfNextYear": True,
    }
    assert reason(kubelet=kubelet) is None


@pytest.mark.fact("aws-1.5.4")
@pytest.mark.parametrize(
    ("spec", "kubelet", "wrong"),
    [
        (AL2, {"topologyManagerPolicy": "none"}, True),
        (BOTTLEROCKET, {"topologyManagerPolicy": "none"}, True),
        ({}, {"topologyManagerPolicy": "none"}, False),  # AL2023 accepts any setting
        ({"amiFamily": "Custom"}, {"topologyManagerPolicy": "none"}, False),
        (BOTTLEROCKET, {"podsPerCore": 4}, True),
        (AL2, {"podsPerCore": 4}, False),
        (AL2, {"clusterDNS": ["10.0.0.10", "10.0.0.11"]}, True),
        (AL2, {"clusterDNS": ["10.0.0.10"]}, False),
        (AL2, dict.fromkeys(("cpuCFSQuota",), True), False),
    ],
)
def test_kubelet_setting_unsupported_by_the_ami_family_is_reported(
    spec: dict[str, Any], kubelet: dict[str, Any], *, wrong: bool
) -> None:
    assert reason(kubelet=kubelet, **spec) == (UNSUPPORTED_KUBELET if wrong else None)


@pytest.mark.fact("aws-1.5.6", "aws-1.1.4")
@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("team", False),
        ("kubernetes.io/cluster/mine", True),
        ("karpenter.sh/nodepool", True),
        ("karpenter.sh/nodeclaim", True),
        ("karpenter.k8s.aws/ec2nodeclass", True),
        ("eks:eks-cluster-name", True),
    ],
)
def test_tags_set_by_the_autoscaler_are_rejected(key: str, *, wrong: bool) -> None:
    assert reason(tags={key: "x"}) == (INVALID_TAGS if wrong else None)
