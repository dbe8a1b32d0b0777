"""User data of each AMI family: cluster, kubelet settings, labels and taints."""

import email
import json
import shlex
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.cloud.aws.launch import userdata
from holdfast.cloud.aws.launch.userdata import toml
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.model.taints import Effect, Taint

CLUSTER = Cluster(
    name="blue",
    endpoint="https://example",
    ca_bundle="Y2E=",
    service_cidr="10.96.0.0/16",
    dns_ip="10.96.0.10",
)
LABELS = {"karpenter.sh/nodepool": "default", "team": "ml", "kubernetes.io/arch": "amd64"}
UNREGISTERED = Taint("karpenter.sh/unregistered", Effect.NO_EXECUTE)
KUBELET = {
    "podsPerCore": 4,
    "kubeReserved": {"memory": "1Gi", "cpu": "100m"},
    "evictionHard": {"memory.available": "5%"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "imageGCHighThresholdPercent": 80,
    "cpuCFSQuota": False,
}


def bootstrap(**fields: Any) -> Bootstrap:
    plain: dict[str, Any] = {
        "cluster": CLUSTER,
        "max_pods": 58,
        "labels": LABELS,
        "taints": (Taint("gpu", Effect.NO_SCHEDULE, "yes"), UNREGISTERED),
    }
    return Bootstrap(**(plain | fields))


def parts(text: str) -> list[tuple[str, str]]:
    """The MIME parts as cloud-init reads them."""
    message = email.message_from_string(text)
    assert message.is_multipart()
    assert 'boundary="//"' in text
    return [
        (part.get_content_type(), str(part.get_payload()).strip())
        for part in message.walk()
        if not part.is_multipart()
    ]


def node_config(**fields: Any) -> dict[str, Any]:
    """The NodeConfig for nodeadm, which is the last part."""
    content_type, body = parts(userdata.text("AL2023", bootstrap(**fields)))[-1]
    assert content_type == "application/node.eks.aws"
    config = json.loads(body)
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    spec: dict[str, Any] = config["spec"]
    return spec


@pytest.mark.fact("aws-8.2.1", "aws-8.2.2")
def test_al2023_node_config_has_cluster_kubelet_settings_taints_and_labels() -> None:
    spec = node_config(kubelet=KUBELET)
    assert spec["cluster"] == {
        "name": "blue",
        "apiServerEndpoint": "https://example",
        "certificateAuthority": "Y2E=",
        "cidr": "10.96.0.0/16",
    }
    assert spec["kubelet"]["config"] == KUBELET | {
        "maxPods": 58,
        "clusterDNS": ["10.96.0.10"],
        "registerWithTaints": [
            {"key": "gpu", "effect": "NoSchedule", "value": "yes"},
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        ],
    }
    assert spec["kubelet"]["flags"] == ['--node-labels="karpenter.sh/nodepool=default,team=ml"']
    assert "instance" not in spec


def test_al2023_configures_raid0_local_storage() -> None:
    assert node_config(raid0=True)["instance"] == {"localStorage": {"strategy": "RAID0"}}


def test_cluster_dns_of_the_ec2nodeclass_overrides_the_default() -> None:
    assert node_config(kubelet={"clusterDNS": ["1.2.3.4"]})["kubelet"]["config"]["clusterDNS"] == ["1.2.3.4"]


def test_al2023_without_service_cidr_is_not_ready() -> None:
    without_cidr = Cluster(name="blue", endpoint="https://example")
    with pytest.raises(errors.NotReady):
        userdata.text("AL2023", bootstrap(cluster=without_cidr))


OWN_NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}"
OWN_MIME = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo first
--BOUNDARY
Content-Type: text/cloud-config

packages: [jq]
--BOUNDARY--
"""


@pytest.mark.parametrize(
    ("custom", "expected"),
    [
        ("#!/bin/bash\necho mine", [("text/x-shellscript", "#!/bin/bash\necho mine")]),
        (OWN_NODE_CONFIG, [("application/node.eks.aws", OWN_NODE_CONFIG)]),
        (
            OWN_MIME,
            [("text/x-shellscript", "#!/bin/bash\necho first"), ("text/cloud-config", "packages: [jq]")],
        ),
        ("  \n", []),
    ],
)
def test_user_data_of_the_ec2nodeclass_precedes_the_generated_part(
    custom: str, expected: list[tuple[str, str]]
) -> None:
    found = parts(userdata.text("AL2023", bootstrap(custom=custom)))
    assert found[:-1] == expected
    assert found[-1][0] == "application/node.eks.aws"


def al2_arguments(**fields: Any) -> list[str]:
    """The arguments that the shell passes to the bootstrap script."""
    content_type, script = parts(userdata.text("AL2", bootstrap(**fields)))[-1]
    assert content_type == "text/x-shellscript"
    call = script[script.index("/etc/eks/bootstrap.sh") :].replace("\\\n", "")
    return shlex.split(call)


def test_al2_passes_kubelet_arguments_to_the_bootstrap_script() -> None:
    arguments = al2_arguments(kubelet=KUBELET)
    assert arguments[:8] == [
        "/etc/eks/bootstrap.sh",
        "blue",
        "--apiserver-endpoint",
        "https://example",
        "--b64-cluster-ca",
        "Y2E=",
        "--dns-cluster-ip",
        "10.96.0.10",
    ]
    assert arguments[arguments.index("--use-max-pods") + 1] == "false"
    assert shlex.split(arguments[arguments.index("--kubelet-extra-args") + 1]) == [
        "--node-labels=karpenter.sh/nodepool=default,team=ml",
        "--register-with-taints=gpu=yes:NoSchedule,karpenter.sh/unregistered=:NoExecute",
        "--max-pods=58",
        "--pods-per-core=4",
        "--kube-reserved=cpu=100m,memory=1Gi",
        "--eviction-hard=memory.available<5%",
        "--eviction-soft-grace-period=memory.available=1m",
        "--image-gc-high-threshold=80",
        "--cpu-cfs-quota=false",
    ]


def test_al2_passes_ip_family_and_local_disks() -> None:
    arguments = al2_arguments(raid0=True, cluster=Cluster(name="blue", endpoint="https://example", ipv6=True))
    assert arguments[arguments.index("--ip-family") + 1] == "ipv6"
    assert arguments[arguments.index("--local-disks") + 1] == "raid0"


def bottlerocket(**fields: Any) -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads(userdata.text("Bottlerocket", bootstrap(**fields)))["settings"]
    return settings


def test_bottlerocket_settings_override_those_of_the_user_data() -> None:
    custom = (
        '[settings.kubernetes]\n"max-pods" = 7\nserver-tls-bootstrap = false\n[settings.motd]\ntext = "hi"'
    )
    settings = bottlerocket(custom=custom, kubelet=KUBELET)
    assert settings["motd"] == {"text": "hi"}
    assert settings["kubernetes"] == {
        "server-tls-bootstrap": False,
        "cluster-name": "blue",
        "api-server": "https://example",
        "cluster-certificate": "Y2E=",
        "cluster-dns-ip": "10.96.0.10",
        "max-pods": 58,
        "node-labels": {"karpenter.sh/nodepool": "default", "team": "ml"},
        "node-taints": {"gpu": ["yes:NoSchedule"], "karpenter.sh/unregistered": [":NoExecute"]},
        "kube-reserved": {"cpu": "100m", "memory": "1Gi"},
        "eviction-hard": {"memory.available": "5%"},
        "eviction-soft-grace-period": {"memory.available": "1m"},
        "image-gc-high-threshold-percent": "80",
        "cpu-cfs-quota-enforced": False,
    }


@pytest.mark.parametrize(
    ("version", "directories"), [("v1.45.0", True), ("v1.46.0", False), ("1.100.1", False), ("latest", False)]
)
def test_bottlerocket_passes_directories_only_before_version_1_46(version: str, directories: bool) -> None:  # noqa: FBT001
    settings = bottlerocket(raid0=True, image_version=version)
    (command,) = settings["bootstrap-commands"].values()
    assert command["commands"][0] == ["apiclient", "ephemeral-storage", "init"]
    assert ("--dirs" in command["commands"][1]) is directories


def test_bottlerocket_rejects_user_data_that_is_not_toml() -> None:
    with pytest.raises(errors.InvalidInput, match=r"spec\.userData"):
        userdata.text("Bottlerocket", bootstrap(custom="echo mine"))


def test_windows_runs_the_user_data_before_the_bootstrap_script() -> None:
    text = userdata.text("Windows2022", bootstrap(custom="Write-Host 'mine'"))
    lines = text.strip().splitlines()
    assert lines[0] == "<powershell>"
    assert lines[1] == "Write-Host 'mine'"
    assert "Start-EKSBootstrap.ps1" in lines[2]
    for argument in (
        "-EKSClusterName 'blue'",
        "-APIServerEndpoint 'https://example'",
        "-Base64ClusterCA 'Y2E='",
        "-DNSClusterIP '10.96.0.10'",
        "--max-pods=58",
    ):
        assert argument in lines[2]
    assert lines[-1] == "</powershell>"


def test_user_data_of_the_custom_family_is_unchanged() -> None:
    assert userdata.text("Custom", bootstrap(custom="anything")) == "anything"
    assert userdata.text("Custom", bootstrap()) == ""


KEYS = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_written_toml_parses_to_the_same_table(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml.text(table)) == table
