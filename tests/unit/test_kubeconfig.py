"""Kubeconfig files: server, credentials and namespace, and the errors for an invalid file."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast.kube import incluster, kubeconfig
from holdfast.kube.connection import Connection
from holdfast.kube.credentials import Credential
from holdfast.sim import time
from holdfast.sim.time import VirtualClock
from scripted import START

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
INLINE = base64.b64encode(PEM.encode()).decode()


def config(user: Any = None, **cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/"} | cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    }


def load(folder: Path, content: Any, context: str = "", **environ: str) -> Connection:
    path = folder / "config"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return kubeconfig.load([path], environ=environ, clock=VirtualClock(START), context=context)


def credential(connection: Connection) -> Credential:
    return time.run(connection.credentials.current())


def test_the_current_context_names_server_user_and_namespace(tmp_path: Path) -> None:
    found = load(tmp_path, config({"token": "secret"}, **{"certificate-authority-data": INLINE}))
    assert found.server.url == "https://api:6443"
    assert found.server.ca_pem == PEM
    assert found.namespace == "team"
    assert credential(found).token == "secret"


def test_another_context_can_be_named(tmp_path: Path) -> None:
    content = config()
    content["clusters"].append({"name": "other", "cluster": {"server": "https://other"}})
    content["contexts"].append({"name": "there", "context": {"cluster": "other", "user": "u"}})
    found = load(tmp_path, content, context="there")
    assert found.server.url == "https://other"
    assert found.namespace == "default"


def test_paths_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca.pem", "me.pem", "key.pem"):
        (tmp_path / name).write_text(PEM, encoding="ascii")
    user = {"client-certificate": "me.pem", "client-key": "key.pem"}
    found = load(tmp_path, config(user, **{"certificate-authority": "ca.pem"}))
    assert found.server.ca_pem == PEM
    assert credential(found) == Credential("", PEM, PEM)


def test_token_file_is_read_again_after_a_minute_or_a_refusal(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="ascii")
    clock = VirtualClock(START)
    (tmp_path / "config").write_text(json.dumps(config({"tokenFile": "token"})), encoding="ascii")
    found = kubeconfig.load([tmp_path / "config"], environ={}, clock=clock)

    async def program() -> list[str]:
        tokens = [(await found.credentials.current()).token]
        token.write_text("second\n", encoding="ascii")
        tokens.append((await found.credentials.current()).token)
        await clock.sleep(61)
        tokens.append((await found.credentials.current()).token)
        token.write_text("third\n", encoding="ascii")
        found.credentials.refused()
        return [*tokens, (await found.credentials.current()).token]

    assert time.run(program()) == ["first", "first", "second", "third"]


def test_first_file_that_defines_an_entry_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    only_context = config()
    only_context["clusters"] = None
    first.write_text(json.dumps(only_context), encoding="ascii")
    second.write_text(
        json.dumps(config({"token": "of the second"}, server="https://second")), encoding="ascii"
    )
    environ = {"KUBECONFIG": f"{tmp_path / 'missing'}:{first}:{second}"}
    found = kubeconfig.load(kubeconfig.files(environ), environ=environ, clock=VirtualClock(START))
    assert found.server.url == "https://second"
    assert credential(found).token == ""


def test_the_default_is_the_kubeconfig_in_home() -> None:
    assert kubeconfig.files({"HOME": "/h"}) == (Path("/h/.kube/config"),)
    assert kubeconfig.files({"HOME": "/h", "KUBECONFIG": "a:b"}) == (Path("a"), Path("b"))
    assert kubeconfig.files({"HOME": "/h", "KUBECONFIG": "a:b"}, "named") == (Path("named"),)


def test_proxy_is_read_from_the_kubeconfig_or_the_environment(tmp_path: Path) -> None:
    environment = {"HTTPS_PROXY": "http://env:3128"}
    assert (
        load(tmp_path, config(**{"proxy-url": "http://file:1"}), **environment).server.proxy_url
        == "http://file:1"
    )
    assert load(tmp_path, config(), **environment).server.proxy_url == "http://env:3128"
    assert load(tmp_path, config(), **environment, NO_PROXY="other,api").server.proxy_url == ""
    assert (
        load(
            tmp_path, config(server="https://10.1.2.3"), **environment, NO_PROXY="10.0.0.0/8"
        ).server.proxy_url
        == ""
    )
    assert (
        load(tmp_path, config(server="https://a.b.c"), **environment, NO_PROXY=".b.c").server.proxy_url == ""
    )
    with pytest.raises(errors.InvalidInput, match="socks5"):
        load(tmp_path, config(**{"proxy-url": "socks5://x:1"}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: 1\nb: [1\n", "config:3: not YAML"),
        ("", "0 documents"),
        ("a: 1\n---\nb: 2", "2 documents"),
        ("clusters: 7", "clusters"),
        (config() | {"current-context": ""}, "no current-context"),
        (config() | {"current-context": "gone"}, "no context 'gone'; it has here"),
        (config() | {"clusters": []}, "no cluster 'c'; it has none"),
        (config() | {"users": []}, "no user 'u'"),
        (config(server="api:6443"), "is not the URL"),
        (config(server="https://api:port"), "is not the URL"),
        (config(**{"certificate-authority-data": "%%%"}), "certificate-authority-data is not base64"),
        (config(**{"certificate-authority-data": "AAAA"}), "not PEM"),
        (config(**{"certificate-authority": "missing.pem"}), "missing.pem cannot be read"),
        (
            config(**{"certificate-authority-data": INLINE, "insecure-skip-tls-verify": True}),
            "exclude each other",
        ),
        (config({"client-certificate-data": INLINE}), "needs its key"),
        (config({"client-key-data": INLINE}), "needs its certificate"),
        (config({"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
        (config({"username": "u", "password": "p"}), "username is not supported"),
        (config({"as": "a", "as-groups": ["g"]}), "as-groups is not supported"),
        (config({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}), "no command"),
        (config({"exec": {"apiVersion": "v0", "command": "x"}}), "v0 are not known"),
    ],
)
def test_invalid_kubeconfig_is_an_error_that_names_the_cause(
    tmp_path: Path, content: Any, words: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        load(tmp_path, content)


def test_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="No such file"):
        kubeconfig.load([tmp_path / "none"], environ={}, clock=VirtualClock(START))
    with pytest.raises(errors.InvalidInput, match="no kubeconfig found"):
        kubeconfig.load([], environ={}, clock=VirtualClock(START))


def test_in_cluster_configuration_is_read_from_the_service_account(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(PEM, encoding="ascii")
    (tmp_path / "namespace").write_text("kube-system", encoding="ascii")
    (tmp_path / "token").write_text("pod-token\n", encoding="ascii")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert incluster.is_in_pod(environ)
    found = incluster.load(environ=environ, clock=VirtualClock(START), folder=tmp_path)
    assert found.server.url == "https://[fd00::1]:6443"
    assert found.server.ca_pem == PEM
    assert found.namespace == "kube-system"
    assert credential(found).token == "pod-token"


def test_in_cluster_configuration_fails_outside_of_a_pod(tmp_path: Path) -> None:
    assert not incluster.is_in_pod({})
    with pytest.raises(errors.InvalidInput, match="not running in a pod"):
        incluster.load(environ={}, clock=VirtualClock(START), folder=tmp_path)
    with pytest.raises(errors.InvalidInput, match="automountServiceAccountToken"):
        incluster.load(environ={"KUBERNETES_SERVICE_HOST": "h"}, clock=VirtualClock(START), folder=tmp_path)
