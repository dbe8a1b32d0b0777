"""User data of Windows: a PowerShell script that calls the image's bootstrap script."""

from typing import Final

from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap, kubelet_arguments

_SCRIPT: Final = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"


def text(bootstrap: Bootstrap) -> str:
    """The class's own script runs first."""
    cluster = bootstrap.cluster
    call = [
        f'& "{_SCRIPT}" -EKSClusterName {_quoted(cluster.name)} -APIServerEndpoint {_quoted(cluster.endpoint)}'
    ]
    if cluster.ca_bundle:
        call.append(f"-Base64ClusterCA {_quoted(cluster.ca_bundle)}")
    call.append(f"-KubeletExtraArgs {_quoted(kubelet_arguments(bootstrap))}")
    if bootstrap.dns_ip:
        call.append(f"-DNSClusterIP {_quoted(bootstrap.dns_ip)}")
    own = [bootstrap.custom.rstrip("\n")] if bootstrap.custom else []
    return "\n".join(["<powershell>", *own, " ".join(call), "</powershell>", ""])


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
