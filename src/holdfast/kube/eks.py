"""Creates EKS tokens: presigned STS requests, as `aws eks get-token` and `aws-iam-authenticator token` do.

With them a container image needs no AWS CLI for the kubeconfig of an EKS cluster. Reading AWS credentials may block on
the network, so tokens are created in a thread.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import botocore.exceptions
import botocore.session
from botocore.signers import RequestSigner

from holdfast import errors
from holdfast.kube.credentials import Credential, Plugin, Renewed
from holdfast.ports import Clock

_PREFIX: Final = "k8s-aws-v1."
_URL_EXPIRES_S: Final = 60  # the validity that EKS accepts, counted by its own clock from the first use
_TOKEN_EXPIRES_S: Final = 14 * 60  # EKS caches a token for 15 minutes
_CLUSTER_FLAGS: Final = ("--cluster-name", "--cluster-id", "-i")
_ROLE_FLAGS: Final = ("--role-arn", "--role", "-r")


@dataclass(frozen=True, slots=True)
class EksCluster:
    name: str
    region: str = ""
    role_arn: str = ""
    profile: str = ""


def cluster_of(program: Plugin, environ: Mapping[str, str]) -> EksCluster | None:
    """The cluster of a plugin that this module replaces; None for other plugins."""
    command, args = PurePath(program.command).name, program.args
    env = {**environ, **program.env}
    known = (command == "aws" and "eks" in args and "get-token" in args) or (
        command == "aws-iam-authenticator" and "token" in args
    )
    name = _flag(args, _CLUSTER_FLAGS)
    if not known or not name:
        return None
    region = _flag(args, ("--region",)) or env.get("AWS_REGION", "") or env.get("AWS_DEFAULT_REGION", "")
    profile = _flag(args, ("--profile",)) or env.get("AWS_PROFILE", "")
    return EksCluster(name, region, _flag(args, _ROLE_FLAGS), profile)


def tokens(cluster: EksCluster, *, clock: Clock) -> Renewed:
    async def make() -> Credential:
        try:
            token = await asyncio.to_thread(_token, cluster)
        except botocore.exceptions.BotoCoreError as error:
            raise errors.Unauthorized(f"no EKS token for {cluster.name}: {error}") from error
        except botocore.exceptions.ClientError as error:
            raise errors.Unauthorized(f"no EKS token for {cluster.name}: {error}") from error
        return Credential(token=token, expires_s=clock.now_s() + _TOKEN_EXPIRES_S)

    return Renewed(make, clock=clock)


def _token(cluster: EksCluster) -> str:
    session = botocore.session.Session(profile=cluster.profile or None)
    region = cluster.region or session.get_config_variable("region")
    if not region:
        raise errors.InvalidInput(f"no region for the EKS token of {cluster.name}; set AWS_REGION")
    if cluster.role_arn:
        session = _assumed(session, region, cluster.role_arn)
    client = session.create_client("sts", region_name=region)
    signer = RequestSigner(
        client.meta.service_model.service_id,
        region,
        "sts",
        "v4",
        session.get_credentials(),
        session.get_component("event_emitter"),
    )
    request = {
        "method": "GET",
        "url": f"{client.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster.name},
        "context": {},
    }
    url = signer.generate_presigned_url(
        request, operation_name="", region_name=region, expires_in=_URL_EXPIRES_S
    )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _assumed(session: Any, region: str, role_arn: str) -> Any:
    answer = session.create_client("sts", region_name=region).assume_role(
        RoleArn=role_arn, RoleSessionName="holdfast"
    )
    keys = answer["Credentials"]
    assumed = botocore.session.Session()
    assumed.set_credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    return assumed


def _flag(args: tuple[str, ...], names: tuple[str, ...]) -> str:
    for position, arg in enumerate(args):
        name, _, value = arg.partition("=")
        if name in names:
            return value or (args[position + 1] if position + 1 < len(args) else "")
    return ""
