"""Credentials that are created on demand: by exec plugins, and EKS tokens that Holdfast signs."""

import asyncio
import base64
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import errors
from holdfast.kube import credentials, eks
from holdfast.kube.credentials import Credential, Plugin, Renewed
from holdfast.sim import time
from holdfast.sim.time import VirtualClock
from scripted import START

V1 = "client.authentication.k8s.io/v1"


def plugin_script(folder: Path, script: str, api_version: str = V1) -> Plugin:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o755)
    return Plugin(str(path), ("arg",), {"WHO": "me"}, api_version, "get it from the shop")


def credential_of(plugin: Plugin) -> Credential:
    made = credentials.plugin(plugin, environ={"PATH": "/bin:/usr/bin"}, clock=VirtualClock(START))
    return asyncio.run(made.current())


def test_plugin_gets_its_arguments_and_environment_and_its_expiration_is_used(tmp_path: Path) -> None:
    script = f"""echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":
        {{"token":"'$WHO-$1'","expirationTimestamp":"2026-11-15T10:30:00Z"}}}}'"""
    found = credential_of(plugin_script(tmp_path, script))
    assert found.token == "me-arg"
    assert found.expires_s == int(START.timestamp()) + 1800


def test_a_plugin_may_print_a_certificate(tmp_path: Path) -> None:
    status = json.dumps({"clientCertificateData": "cert", "clientKeyData": "key"})
    script = f"""echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{status}}}'"""
    assert credential_of(plugin_script(tmp_path, script)) == Credential("", "cert", "key")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no; echo why >&2; exit 3", "ended with 3: why"),
        ("echo nonsense", "printed no ExecCredential"),
        ("echo '{}'", "printed nothing of no apiVersion"),
        (f"""echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{}}}}'""", "neither a token"),
    ],
)
def test_failing_plugin_is_an_error_that_names_the_cause(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(errors.Unauthorized, match=words):
        credential_of(plugin_script(tmp_path, script))


def test_a_missing_plugin_shows_the_install_hint(tmp_path: Path) -> None:
    missing = Plugin(str(tmp_path / "none"), (), {}, V1, "get it from the shop")
    with pytest.raises(errors.Unauthorized, match="get it from the shop"):
        credential_of(missing)


def test_a_credential_is_cached_until_a_minute_before_it_expires() -> None:
    clock = VirtualClock(START)
    calls = 0

    async def source() -> Credential:
        nonlocal calls
        calls += 1
        return Credential(token=str(calls), expires_s=clock.now_s() + 600)

    async def main() -> list[str]:
        renewed = Renewed(source, clock=clock)
        tokens = [(await renewed.current()).token]
        for seconds in (539, 1, 100):
            await clock.sleep(seconds)
            tokens.append((await renewed.current()).token)
        renewed.refused()
        together = await asyncio.gather(*(renewed.current() for _ in range(5)))
        return [*tokens, *(credential.token for credential in together)]

    assert time.run(main()) == ["1", "1", "2", "2", "3", "3", "3", "3", "3"]


def test_an_eks_token_is_a_presigned_sts_request_for_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    args = ("--region", "eu-west-1", "eks", "get-token", "--cluster-name", "blue", "--output", "json")
    cluster = eks.cluster_of(Plugin("/no/such/aws", args, {}, V1), {})
    assert cluster is not None
    clock = VirtualClock(START)

    async def main() -> tuple[Credential, int]:
        return await eks.tokens(cluster, clock=clock).current(), clock.now_s()

    found, now_s = asyncio.run(main())
    prefix, _, encoded = found.token.partition(".")
    assert prefix == "k8s-aws-v1"
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = parse_qs(url.query)
    assert url.hostname == "sts.eu-west-1.amazonaws.com"
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert found.expires_s is not None
    assert found.expires_s - now_s == pytest.approx(840, abs=5)


def test_the_cluster_of_an_eks_plugin_is_read_from_its_arguments() -> None:
    authenticator = Plugin(
        "aws-iam-authenticator", ("token", "-i", "blue", "-r", "arn:x"), {"AWS_REGION": "r"}, V1
    )
    assert eks.cluster_of(authenticator, {}) == eks.EksCluster("blue", "r", "arn:x")
    with_profile = Plugin("aws", ("eks", "get-token", "--cluster-name=b"), {"AWS_PROFILE": "p"}, V1)
    assert eks.cluster_of(with_profile, {"AWS_DEFAULT_REGION": "d"}) == eks.EksCluster("b", "d", "", "p")
    assert eks.cluster_of(Plugin("gke-gcloud-auth-plugin", (), {}, V1), {}) is None
    assert eks.cluster_of(Plugin("aws", ("sts", "get-caller-identity"), {}, V1), {}) is None
