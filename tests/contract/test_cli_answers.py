"""`holdfast explain`, `reservations` and `status` against a real server: where they ask, retries, errors, exit codes."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

import report_documents as documents
from holdfast.cli import main
from holdfast.kube.http import HttpLimits
from leader_server import PROXY, LeaderServer, error, serving, status

POD = "explain/pod/shop/web-5c9d7-2xkqv"


@pytest.fixture
def server() -> Iterator[LeaderServer]:
    with serving(
        {
            "status": documents.STATUS,
            "reservations": documents.RESERVATIONS,
            "slots": documents.SLOTS,
            "search": documents.NEAR,
            POD: documents.POD,
        }
    ) as found:
        yield found


def run(*words: str, **environ: str) -> Result:
    names = (
        "HOLDFAST_SERVER",
        "HOLDFAST_NAMESPACE",
        "HOLDFAST_SERVICE",
        "KUBECONFIG",
        "HTTP_PROXY",
        "http_proxy",
    )
    env: dict[str, str | None] = {**dict.fromkeys(names), **environ}
    return CliRunner().invoke(main, words, env=env, prog_name="holdfast")


def ask(server: LeaderServer, *words: str) -> Result:
    return run(*words, HOLDFAST_SERVER=server.url)


def explain_pod(server: LeaderServer, *words: str) -> Result:
    return ask(server, "explain", "pod", "web-5c9d7-2xkqv", "-n", "shop", *words)


# --- Where the leader is ----------------------------------------------------------------------------


def test_the_leader_is_asked_at_the_address_of_the_variable_or_the_flag(server: LeaderServer) -> None:
    assert ask(server, "status").exit_code == 0
    assert run("status", "--server", f"{server.url}/").exit_code == 0
    assert server.requests == ["/api/v1/status"] * 2


@pytest.fixture
def kubeconfig(server: LeaderServer, tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(server.kubeconfig, encoding="utf-8")
    return str(path)


def test_without_an_address_the_service_proxy_is_asked_with_the_users_token(
    server: LeaderServer, kubeconfig: str
) -> None:
    result = run("status", KUBECONFIG=kubeconfig)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Holdfast 0.4.0 on cluster demo\n")
    assert server.requests == [f"{PROXY}/api/v1/status"]


def test_a_cluster_given_by_a_flag_overrides_the_variable(server: LeaderServer, kubeconfig: str) -> None:
    result = run("status", "--kubeconfig", kubeconfig, HOLDFAST_SERVER="http://127.0.0.1:1")
    assert result.exit_code == 0
    both = run("status", "--kubeconfig", kubeconfig, "--server", server.url)
    assert both.exit_code == 2
    assert "--server and --kubeconfig exclude each other" in both.stderr


def test_the_namespace_of_the_context_is_that_of_pods(server: LeaderServer, tmp_path: Path) -> None:
    config = json.loads(json.dumps(yaml.safe_load(server.kubeconfig)))
    config["contexts"][0]["context"]["namespace"] = "shop"
    (tmp_path / "config").write_text(json.dumps(config), encoding="utf-8")
    assert run("explain", "po/web-5c9d7-2xkqv", KUBECONFIG=str(tmp_path / "config")).exit_code == 0
    assert server.requests == [f"{PROXY}/api/v1/{POD}"]


def test_a_missing_service_names_the_flags(kubeconfig: str) -> None:
    result = run("status", "--service", "other", KUBECONFIG=kubeconfig)
    assert result.exit_code == 3
    assert result.stderr == (
        "holdfast status: Service kube-system/other does not exist; set --holdfast-namespace and --service to those of"
        " Holdfast. Without a leader this command computes the answer itself, with the variables of `holdfast run`:"
        " --cluster-name: required; or set CLUSTER_NAME\n"
    )


def test_a_missing_right_is_named(server: LeaderServer, kubeconfig: str) -> None:
    async def forbidden(_request: web.Request) -> web.Response:
        return status(403, "Forbidden", 'services "holdfast:http-api" is forbidden')

    server.next_responses.append(forbidden)
    result = run("status", KUBECONFIG=kubeconfig)
    assert result.exit_code == 3
    assert "`get` on `services/proxy` for holdfast:http-api in namespace kube-system" in result.stderr


def test_a_missing_kubeconfig_is_a_usage_error(tmp_path: Path) -> None:
    result = run("status", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


@pytest.mark.parametrize("url", ["holdfast", "ftp://127.0.0.1", "http://", "http://a:b:c"])
def test_an_address_that_is_no_url_is_a_usage_error(url: str) -> None:
    assert run("status", "--server", url).exit_code == 2


# --- Servers that misbehave -------------------------------------------------------------------------


def test_a_replica_that_does_not_lead_is_asked_again(server: LeaderServer) -> None:
    async def not_leading(_request: web.Request) -> web.Response:
        return error(503, "this replica does not lead")

    server.next_responses.extend([not_leading] * 2)
    assert ask(server, "status").exit_code == 0
    assert len(server.requests) == 3


def test_without_a_leader_the_command_ends(server: LeaderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.app.answers._AGAIN_AFTER_S", (0.01, 0.01))

    async def not_leading(_request: web.Request) -> web.Response:
        return error(503, "this replica does not lead")

    server.next_responses.extend([not_leading] * 100)
    result = ask(server, "status")
    assert result.exit_code == 3
    assert (
        result.stderr
        == f"holdfast status: HOLDFAST_SERVER {server.url} responds: this replica does not lead\n"
    )
    assert len(server.requests) == 3


def test_no_server_is_an_error_with_its_address() -> None:
    result = run("status", "--server", "http://127.0.0.1:1")
    assert result.exit_code == 3
    assert result.stderr.startswith("holdfast status: --server http://127.0.0.1:1 cannot be read: ")


@pytest.mark.parametrize("body", [b"", b"garbage", b"[]", b'{"at": "x"}', b"[" * 100_000, b"\xff\xfe"])
def test_a_response_that_cannot_be_decoded_is_an_error(server: LeaderServer, body: bytes) -> None:
    async def broken(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    server.next_responses.append(broken)
    result = ask(server, "status")
    assert result.exit_code == 3
    assert "cannot be decoded" in result.stderr
    assert len(result.stderr) < 500


def test_a_response_without_an_end_is_cut_off(server: LeaderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.leader._LIMITS", HttpLimits(body_bytes=100_000))

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b" " * 65_536)
        return response

    server.next_responses.append(endless)
    result = ask(server, "status")
    assert result.exit_code == 3
    assert "a response of more than 100,000 bytes" in result.stderr


def test_a_slow_server_is_an_error(server: LeaderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.leader._LIMITS", HttpLimits(answer_s=0.2))

    async def slow(_request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    server.next_responses.append(slow)
    result = ask(server, "status")
    assert result.exit_code == 3
    assert "did not respond in time" in result.stderr


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_redirects_are_not_followed(server: LeaderServer, code: int) -> None:
    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=code, headers={"location": f"{server.url}/elsewhere"})

    server.next_responses.append(redirect)
    result = ask(server, "status")
    assert result.exit_code == 3
    assert "redirects are not followed" in result.stderr
    assert server.requests == ["/api/v1/status"]


def test_a_server_of_something_else_is_an_error(server: LeaderServer) -> None:
    async def other(_request: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found")

    server.next_responses.append(other)
    result = ask(server, "status")
    assert result.exit_code == 3
    assert "does not serve the JSON API of Holdfast" in result.stderr


def test_errors_of_the_server_reach_the_terminal_escaped(server: LeaderServer) -> None:
    async def hostile(_request: web.Request) -> web.Response:
        return error(400, "\x1b]0;title\x07 [red]\u202e")

    server.next_responses.append(hostile)
    result = ask(server, "status")
    assert "\\x1b]0;title\\x07 [red]\\u202e" in result.stderr
    assert result.stderr.rstrip("\n").isprintable()


# --- explain ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["pod", "web-5c9d7-2xkqv"],
        ["pods", "web-5c9d7-2xkqv"],
        ["po", "web-5c9d7-2xkqv"],
        ["pod/web-5c9d7-2xkqv"],
        ["PODS/web-5c9d7-2xkqv"],
        ["pods.v1/web-5c9d7-2xkqv"],
    ],
)
def test_kinds_are_spelled_as_with_kubectl(server: LeaderServer, words: list[str]) -> None:
    result = ask(server, "explain", *words, "--namespace", "shop")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "pod shop/web-5c9d7-2xkqv\n  The pod is pending: it should schedule on NodeClaim general-c8m2p"
    )


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["node", "a"], "node/a"),
        (["no/a"], "node/a"),
        (["nodeclaims.karpenter.sh", "a"], "nodeclaim/a"),
        (["nodepools/a"], "nodepool/a"),
        (["cr", "cr-1"], "reservation/cr-1"),
        (["jobs.batch/a"], "job/default/a"),
        (["jobsets.jobset.x-k8s.io/ml/a"], "jobset/ml/a"),
        (["lws", "a", "-n", "ml"], "leaderworkerset/ml/a"),
        (["podgroup", "a", "-n", "ml"], "podgroup/ml/a"),
        (["podgroups.scheduling.k8s.io/a"], "podgroup/default/a"),
        (["provisioningrequest", "ml/a"], "provisioningrequest/ml/a"),
        (["provreq", "ml/a", "-n", "ml"], "provisioningrequest/ml/a"),
        (["provisioningrequests.autoscaling.x-k8s.io/ml/a"], "provisioningrequest/ml/a"),
        (["pod/shop/a"], "pod/shop/a"),
        (["node", "ä b"], "node/%C3%A4%20b"),
    ],
)
def test_each_kind_has_its_path(server: LeaderServer, words: list[str], path: str) -> None:
    assert ask(server, "explain", *words).exit_code == 1
    assert server.requests[0] == f"/api/v1/explain/{path}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pod"], "a name is missing"),
        (["pod/"], "a name is missing"),
        (["secret", "a"], "'secret' is none of pod, node, nodeclaim, nodepool, reservation, job, jobset"),
        (["pod", "../../secrets"], "cannot be the name of an object"),
        (["pod", "a%2fb"], "cannot be the name of an object"),
        (["pod", "shop/a", "-n", "ml"], "the namespace is shop in the name and ml in --namespace"),
        (["job", "/a"], "cannot be the name of an object"),
        (["job", "a/"], "cannot be the name of an object"),
        (["jobset", "a/b/c"], "cannot be the name of an object"),
        (["podgroup", "a/b/c"], "cannot be the name of an object"),
        (["node", "a/b"], "cannot be the name of an object"),
        (["pod", "a", "-n", ".."], "cannot be the name of an object"),
        (["pod", "a", "b"], "unexpected extra argument"),
        ([], "Missing argument"),
    ],
)
def test_wrong_arguments_are_usage_errors(server: LeaderServer, words: list[str], message: str) -> None:
    result = ask(server, "explain", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert server.requests == []


def test_an_unknown_name_gives_near_names(server: LeaderServer) -> None:
    result = ask(server, "explain", "pod", "web-5c9d7-2xkqx", "-n", "shop")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "holdfast explain: there is no pod web-5c9d7-2xkqx in namespace shop\n"
        "Did you mean:\n"
        "  holdfast explain pod web-5c9d7-2xkqv -n shop\n"
        "  holdfast explain pod web-5c9d7-8hj2m -n shop\n"
        "  holdfast explain node web-node\n"
    )


def test_a_shorter_text_is_searched_if_nothing_has_the_whole_name(server: LeaderServer) -> None:
    async def nothing(_request: web.Request) -> web.Response:
        return web.json_response({"at": 1})

    async def missing(_request: web.Request) -> web.Response:
        return error(404, "no such pod")

    server.next_responses.extend([missing, nothing, nothing])
    result = ask(server, "explain", "pod", "web-5c9d7-zzzzz")
    assert result.exit_code == 1
    assert "Did you mean" in result.stderr
    assert [path.rpartition("=")[2] for path in server.requests[1:]] == [
        "web-5c9d7-zzzzz",
        "web-5c9d7",
        "web",
    ]


def test_hostile_near_names_are_escaped(server: LeaderServer) -> None:
    hit = {"kind": "pod", "namespace": "a\x1b[2J", "name": "[bold]\u202ex\n\x9b31m"}

    async def hostile(_request: web.Request) -> web.Response:
        return web.json_response({"at": 1, "items": [hit]})

    async def missing(_request: web.Request) -> web.Response:
        return error(404, "no such pod")

    server.next_responses.extend([missing, hostile])
    result = ask(server, "explain", "pod", "x")
    assert "[bold]\\u202ex \\x9b31m -n a\\x1b[2J" in result.stderr
    assert all(line.isprintable() for line in result.stderr.splitlines())


def test_a_search_that_fails_does_not_hide_that_the_object_is_missing(server: LeaderServer) -> None:
    async def missing(_request: web.Request) -> web.Response:
        return error(404, "no such pod")

    async def broken(_request: web.Request) -> web.Response:
        return web.Response(text="garbage")

    server.next_responses.extend([missing, broken])
    result = ask(server, "explain", "pod", "x")
    assert (result.exit_code, result.stderr) == (
        1,
        "holdfast explain: there is no pod x in namespace default\n",
    )


# --- Output -----------------------------------------------------------------------------------------


def test_json_and_yaml_are_the_document(server: LeaderServer) -> None:
    as_json = json.loads(explain_pod(server, "-o", "json").stdout)
    assert as_json["what"] == documents.POD.what
    assert len(as_json["decisions"]) == 7
    assert yaml.safe_load(explain_pod(server, "-o", "yaml").stdout) == as_json
    for command in ("status", "reservations"):
        as_json = json.loads(ask(server, command, "-o", "json").stdout)
        assert as_json["at"] == documents.NOW
        assert yaml.safe_load(ask(server, command, "-o", "yaml").stdout) == as_json


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_hostile_texts_are_escaped_in_documents(server: LeaderServer, form: str) -> None:
    hostile = "\x1b]0;a\x07[red]\u202e\x9b\x7f"
    found = msgspec.structs.replace(documents.POD, what=hostile)

    async def respond(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(found))

    server.next_responses.append(respond)
    text = explain_pod(server, "-o", form).stdout
    assert all(line.isascii() and line.isprintable() for line in text.splitlines())
    assert yaml.safe_load(text)["what"] == hostile


def test_wide_shows_all_decisions(server: LeaderServer) -> None:
    assert "older decisions" in explain_pod(server).stdout
    wide = explain_pod(server, "-o", "wide").stdout
    assert wide.count("Launch of NodeClaim") + wide.count("Created NodeClaim") == 7
    assert "older decisions" not in wide


# --- reservations -----------------------------------------------------------------------------------


def ids(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [line.split()[0] for line in result.stdout.splitlines()[1:]]


def test_rows_have_one_line_and_the_same_number_of_fields(server: LeaderServer) -> None:
    result = ask(server, "reservations")
    fields = [line.split() for line in result.stdout.splitlines()]
    assert {len(line) for line in fields} == {15}
    assert fields[0][:3] == ["RESERVATION", "TYPE", "ZONE"]
    assert fields[1][-1].endswith("general-c8m2p(launching),+1")
    assert fields[3][12:] == ["open", "none", "-"]
    assert result.stderr == (
        "3 idle slots: $0.38 an hour, without 1 reservation whose price is unknown.\n"
        "Idle slots cost $17.50 since 2026-11-16 02:00 UTC (1 day ago).\n"
        "No EC2NodeClass selects cr-0c3d4e5f607182930.\n"
    )


def test_only_slots_in_use_are_asked_for(server: LeaderServer) -> None:
    ask(server, "reservations")
    slots = f"/api/v1/slots?reservations={documents.ODCR},{documents.BLOCK}"
    assert server.requests == ["/api/v1/reservations", slots]
    ask(server, "reservations", "-o", "json")
    assert server.requests[2:] == ["/api/v1/reservations"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--type", "p4d.*"], [documents.BLOCK]),
        (["--zone", "us-west-2a"], [documents.ODCR]),
        (["--kind", "capacity-block"], [documents.BLOCK]),
        (["--state", "draining"], [documents.BLOCK]),
        (["--class", "training"], [documents.BLOCK]),
        (["--unselected"], [documents.UNSELECTED]),
        (["--idle"], [documents.ODCR, documents.UNSELECTED]),
        ([documents.BLOCK], [documents.BLOCK]),
        (["--sort", "total"], [documents.ODCR, documents.BLOCK, documents.UNSELECTED]),
        (["--sort", "free"], [documents.ODCR, documents.UNSELECTED, documents.BLOCK]),
        (["--sort", "ends"], [documents.BLOCK, documents.ODCR, documents.UNSELECTED]),
        (["--sort", "type"], [documents.ODCR, documents.BLOCK, documents.UNSELECTED]),
        (["--sort", "state"], [documents.BLOCK, documents.ODCR, documents.UNSELECTED]),
        (["--sort", "idle"], [documents.ODCR, documents.BLOCK, documents.UNSELECTED]),
    ],
)
def test_rows_are_filtered_and_sorted(server: LeaderServer, words: list[str], expected: list[str]) -> None:
    assert ids(ask(server, "reservations", *words)) == expected


def test_sums_are_of_the_rows_that_are_shown(server: LeaderServer) -> None:
    result = ask(server, "reservations", "--unselected")
    assert result.stderr.startswith(
        "1 idle slot: $0.00 an hour, without 1 reservation whose price is unknown.\nNo EC2"
    )


def test_an_unknown_reservation_is_not_found(server: LeaderServer) -> None:
    result = ask(server, "reservations", "cr-1", documents.ODCR)
    assert (result.exit_code, result.stderr) == (1, "holdfast reservations: no reservation cr-1\n")


def test_no_reservations_is_a_sentence(server: LeaderServer) -> None:
    result = ask(server, "reservations", "--zone", "nowhere")
    assert (result.exit_code, result.stdout) == (0, "No reservations.\n")
