"""Which SSM parameters an image alias resolves to."""

import pytest

from holdfast import errors
from holdfast.cloud.aws.nodeclass import image_aliases

EKS = "/aws/service/eks/optimized-ami/1.31"


@pytest.mark.fact("aws-8.1.1")
@pytest.mark.parametrize(
    ("alias", "names"),
    [
        (
            "al2@latest",
            [
                f"{EKS}/amazon-linux-2/recommended/image_id",
                f"{EKS}/amazon-linux-2-arm64/recommended/image_id",
                f"{EKS}/amazon-linux-2-gpu/recommended/image_id",
            ],
        ),
        (
            "al2@v20240807",
            [
                f"{EKS}/amazon-linux-2/amazon-eks-node-1.31-v20240807/image_id",
                f"{EKS}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.31-v20240807/image_id",
                f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20240807/image_id",
            ],
        ),
        (
            "al2023@v20240807",
            [
                f"{EKS}/amazon-linux-2023/{arch}/{kind}/amazon-eks-node-al2023-{arch}-{kind}-1.31-v20240807/image_id"
                for arch, kind in (
                    ("x86_64", "standard"),
                    ("x86_64", "nvidia"),
                    ("x86_64", "neuron"),
                    ("arm64", "standard"),
                    ("arm64", "nvidia"),
                )
            ],
        ),
        (
            "bottlerocket@v1.20.4",
            [
                f"/aws/service/bottlerocket/aws-k8s-1.31{kind}/{arch}/1.20.4/image_id"
                for kind in ("", "-nvidia")
                for arch in ("x86_64", "arm64")
            ],
        ),
        (
            "windows2019@latest",
            ["/aws/service/ami-windows-latest/Windows_Server-2019-English-Core-EKS_Optimized-1.31/image_id"],
        ),
    ],
)
def test_parameters_are_those_that_aws_publishes(alias: str, names: list[str]) -> None:
    assert [parameter.name for parameter in image_aliases.parameters(alias, "1.31")] == names


@pytest.mark.fact("aws-1.4.1")
@pytest.mark.parametrize(
    ("alias", "kubernetes", "supported"),
    [
        ("al2@latest", "1.32", True),
        ("al2@latest", "1.33", False),
        ("al2@latest", "2.0", False),
        ("windows2025@latest", "1.34", False),
        ("windows2025@latest", "1.35", True),
        ("windows2022@latest", "1.30", True),
    ],
)
def test_alias_is_rejected_for_unsupported_kubernetes_versions(
    alias: str, kubernetes: str, *, supported: bool
) -> None:
    if supported:
        assert image_aliases.parameters(alias, kubernetes)
        return
    with pytest.raises(errors.InvalidInput, match=f"Kubernetes {kubernetes}; select"):
        image_aliases.parameters(alias, kubernetes)
