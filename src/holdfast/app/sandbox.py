"""A simulated cluster and a simulated AWS in real time, on loopback, without an autoscaler.

The API server is embedded, with simulated or real controllers; or the whole control plane is real, and only instances
and kubelets are simulated. All files are in one folder. All processes and sockets end with the `async with` block.
`Sandbox.check` raises the errors of the simulation itself.
"""

import base64
import contextlib
import enum
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api import crds
from holdfast.app import shell_environment
from holdfast.kube import credentials, statuses
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Credential
from holdfast.kube.http import HttpTransport
from holdfast.kube.transport import Answer, Transport
from holdfast.ports import Clock, Ids
from holdfast.sim import control_plane, optional_crds, processes, programs
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import http as kube_http
from holdfast.sim.api.serving.front import Front
from holdfast.sim.api.serving.http import Address
from holdfast.sim.api.serving.routing import User
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.aws.fronts import http as aws_http
from holdfast.sim.cloud import Cloud
from holdfast.sim.cloud_setup import CloudSetup, access_key
from holdfast.sim.cluster import Cluster
from holdfast.sim.cluster.kubelet_starter import Joined
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.processes import Processes

_JSON: Final = {"content-type": "application/json"}
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISHED_WITHIN_S: Final = 30.0
_POLL_S: Final = 0.1
_REFUSED: Final = 400
_CLIENT: Final = ClientSettings(per_second=1000, burst=2000, field_manager="sandbox")


class ControlPlane(enum.StrEnum):
    """Which parts are real Kubernetes programs: none, the scheduler and the controller manager, or all."""

    EMBEDDED = "embedded"
    MIXED = "mixed"
    REAL = "real"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start, and where. Port 0 means any free port."""

    folder: Path  # exists and is empty
    setup: CloudSetup = field(default_factory=CloudSetup)
    timings: Timings = field(default_factory=Timings)
    control_plane: ControlPlane = ControlPlane.EMBEDDED
    crds: bool = True  # whether Holdfast's CRDs are installed
    more_crds: tuple[
        Mapping[str, Any], ...
    ] = ()  # of kinds that Holdfast reads if the API server serves them
    kube_port: int = 0
    aws_port: int = 0
    around: Callable[[Front], Front] = lambda front: front  # wraps the API server for requests over HTTP
    find: Callable[[str], Path] = programs.find  # where real programs are
    server_flags: tuple[str, ...] = ()  # more flags of a real kube-apiserver
    feature_gates: tuple[str, ...] = ()  # of all real programs of the control plane


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A running sandbox, and how to reach it."""

    cloud: Cloud
    cluster: Cluster
    transport: Transport  # to the API server, as its administrator
    kube: Client
    address: Address
    kubeconfig: Path
    aws_url: str
    programs: Processes

    def environment(self) -> dict[str, str]:
        """The environment variables that an autoscaler, kubectl and the AWS CLI need."""
        about = self.cloud.about
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "AWS_ENDPOINT_URL": self.aws_url,
            "AWS_REGION": about.region,
            "AWS_DEFAULT_REGION": about.region,
            "AWS_ACCESS_KEY_ID": access_key(about.account),
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CLUSTER_NAME": about.cluster,
            "CLUSTER_ENDPOINT": self.address.url,
            "INTERRUPTION_QUEUE": self.cloud.queue,
            "DISABLE_LEADER_ELECTION": "true",
        }

    def write_env(self, server: str = "") -> Path:
        """Writes the file `env`, next to the kubeconfig; a shell that sources it has the environment variables.
        `server`: the URL of Holdfast's JSON API."""
        env = self.kubeconfig.with_name("env")
        variables = self.environment() | shell_environment.cli_settings(env.parent)
        variables |= {"HOLDFAST_SERVER": server} if server else {}
        env.write_text(shell_environment.script(variables), encoding="utf-8")
        return env

    def check(self) -> None:
        """Raises an error of the simulation itself: after one, no answer of the sandbox can be trusted."""
        self.cluster.check()
        self.programs.check()
        if self.cloud.endpoint.broken is not None:
            raise self.cloud.endpoint.broken

    async def create(self, document: Mapping[str, Any]) -> None:
        """Creates an object of any kind; raises the API server's error message when it refuses."""
        await create(document, self.transport)


@contextlib.asynccontextmanager
async def running(plan: Plan, *, clock: Clock, ids: Ids) -> AsyncIterator[Sandbox]:
    """A sandbox, started and ready, until the block ends."""
    try:
        async with contextlib.AsyncExitStack() as stack:
            yield await _start(plan, stack, clock, ids)
    except ExceptionGroup as group:  # the simulated AWS runs in a task group; unwrap errors of the block
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None


async def _start(plan: Plan, stack: contextlib.AsyncExitStack, clock: Clock, ids: Ids) -> Sandbox:
    token = ids.token()
    started = await stack.enter_async_context(processes.running(plan.folder, clock, plan.find))
    if plan.control_plane is ControlPlane.REAL:
        address, transport = await _real(plan, started, stack, token)
    else:
        address, transport = await _embedded(plan, stack, token, clock, ids)
    if plan.control_plane is not ControlPlane.EMBEDDED:
        await control_plane.start_managers(
            started, plan.folder, address, token=token, more_flags=_gates(plan)
        )
    kube = Client(transport=transport, clock=clock, ids=ids, settings=_CLIENT)
    if plan.crds:
        await install(crds.all_crds(), transport, clock)
    await install(plan.more_crds, transport, clock)
    authority = base64.b64encode(address.authority).decode()
    about = replace(plan.setup, kube_endpoint=address.url, certificate_authority=authority)
    if plan.control_plane is ControlPlane.REAL:
        about = replace(about, kubernetes=await kube.version())  # EKS publishes images for its version
    cloud = Cloud(about, clock=clock, ids=ids)
    await stack.enter_async_context(cloud.running())
    aws_url = await stack.enter_async_context(aws_http.serving(cloud.endpoint, plan.aws_port))
    cluster = Cluster(
        api=kube,
        cloud=cloud.ec2,
        clock=clock,
        ids=ids,
        timings=plan.timings,
        joined=Joined(name=about.cluster, endpoint=address.url, ca_bundle=authority),
        control_plane=plan.control_plane is ControlPlane.EMBEDDED,
        pod_groups=optional_crds.POD_GROUPS in plan.more_crds,
    )
    await cluster.start()
    stack.push_async_callback(cluster.stop)
    kubeconfig = plan.folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(address.kubeconfig(token), encoding="utf-8")
    return Sandbox(
        cloud=cloud,
        cluster=cluster,
        transport=transport,
        kube=kube,
        address=address,
        kubeconfig=kubeconfig,
        aws_url=aws_url,
        programs=started,
    )


async def install(definitions: Iterable[Mapping[str, Any]], transport: Transport, clock: Clock) -> None:
    """Creates CustomResourceDefinitions and waits until they are established. Keeps those that exist."""
    for definition in definitions:
        name = definition["metadata"]["name"]
        answer = await transport.request("POST", _CRDS, {}, _JSON, msgspec.json.encode(definition))
        with contextlib.suppress(errors.AlreadyExists):
            _body(answer, f"POST {_CRDS}")
        until_s = clock.monotonic_s() + _ESTABLISHED_WITHIN_S
        while not _is_established(await transport.request("GET", f"{_CRDS}/{name}", {}, {}, b"")):
            if clock.monotonic_s() > until_s:
                raise errors.NotReady(f"{name} is not established")
            await clock.sleep(_POLL_S)


async def create(document: Mapping[str, Any], transport: Transport) -> None:
    """Creates an object of any kind; raises the API server's error message when it refuses."""
    path = await _path(document, transport)
    query = {"fieldValidation": "Strict"}
    answer = await transport.request("POST", path, query, _JSON, msgspec.json.encode(document))
    _body(answer, f"POST {path}")


async def _path(document: Mapping[str, Any], transport: Transport) -> str:
    version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    answer = await transport.request("GET", root, {}, {}, b"")
    known = _body(answer, f"GET {root}")["resources"] if answer.status < _REFUSED else []
    for resource in known:
        if resource["kind"] == kind and "/" not in resource["name"]:
            namespace = (document.get("metadata") or {}).get("namespace") or "default"
            inside = f"/namespaces/{namespace}" if resource["namespaced"] else ""
            return f"{root}{inside}/{resource['name']}"
    raise errors.Rejected(f"the API server has no kind {kind} of {version}")


async def _embedded(
    plan: Plan, stack: contextlib.AsyncExitStack, token: str, clock: Clock, ids: Ids
) -> tuple[Address, Transport]:
    server = ApiServer(clock=clock, ids=ids, tokens={token: User("admin")})
    address = await stack.enter_async_context(kube_http.serving(plan.around(server), port=plan.kube_port))
    return address, InProcess(server, token=token)


async def _real(
    plan: Plan, started: Processes, stack: contextlib.AsyncExitStack, token: str
) -> tuple[Address, Transport]:
    more_flags = (*plan.server_flags, *_gates(plan))
    address = await control_plane.start_server(
        started, plan.folder, token=token, port=plan.kube_port, more_flags=more_flags
    )
    identity = credentials.Fixed(Credential(token))
    transport = HttpTransport(Connection(Server(address.url, address.authority.decode()), identity))
    stack.push_async_callback(transport.aclose)
    return address, transport


def _gates(plan: Plan) -> tuple[str, ...]:
    return (f"--feature-gates={','.join(plan.feature_gates)}",) if plan.feature_gates else ()


def _body(answer: Answer, doing: str) -> dict[str, Any]:
    """The decoded body; raises the error that the status stands for."""
    assert isinstance(answer.body, bytes)
    if answer.status >= _REFUSED:
        raise statuses.error_of(answer.status, answer.headers, answer.body, doing)
    decoded: dict[str, Any] = msgspec.json.decode(answer.body)
    return decoded


def _is_established(answer: Answer) -> bool:
    conditions = _body(answer, f"GET {_CRDS}").get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
