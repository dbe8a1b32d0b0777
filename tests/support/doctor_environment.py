"""A sandbox over HTTP for `holdfast doctor`: healthy at first, and each test breaks one thing.

The front before the embedded API server has rights like a real one (the embedded server allows everything), another
version, and another clock, where a test sets them.
"""

import asyncio
import contextlib
import datetime as dt
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aws_environment
import process_environment
from holdfast.app import rights, sandbox, settings
from holdfast.app.doctor import diagnosis
from holdfast.app.rights import Right
from holdfast.model.check_results import PROBLEMS, CheckResult
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.serving.front import Front, Request, Response
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from process_environment import TARGETED, Counted, ProcessEnvironment

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICE_ACCOUNT = "system:serviceaccount:kube-system:holdfast"
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved", "on-demand"]}
SMALL = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "c5.large"]}
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}
_REVIEWS = ("/apis/authorization.k8s.io/v1/", "/apis/authentication.k8s.io/v1/")


class RealisticFront:
    """The embedded API server with authorization."""

    def __init__(self) -> None:
        self._inner: Front | None = None
        self.version: str | None = None  # major.minor
        self.allowed: Collection[Right] | None = None  # None: everything
        self.user = SERVICE_ACCOUNT  # whose rights these are
        self.ahead_s = 0  # of the API server's clock

    def around(self, inner: Front) -> Front:
        self._inner = inner
        return self

    async def handle(self, request: Request) -> Response:
        assert self._inner is not None
        if not request.headers.get("user-agent", "").startswith("holdfast"):
            return await self._inner.handle(request)
        wanted = needed_right(request)
        if self.allowed is not None and wanted and not allows(self.allowed, wanted):
            words = f'{wanted.resource} is forbidden: User "{self.user}" cannot {wanted.verb} it'
            status = {"kind": "Status", "reason": "Forbidden", "code": 403, "message": words}
            return Response(403, {"content-type": "application/json"}, json.dumps(status).encode())
        return self._changed(request, await self._inner.handle(request))

    def _changed(self, request: Request, answer: Response) -> Response:
        if not isinstance(answer.body, bytes) or answer.status >= 300:
            return answer
        kind = request.path.rpartition("/")[2]
        value = json.loads(answer.body)
        if request.path == "/version" and self.version:
            value |= dict(zip(("major", "minor"), self.version.split("."), strict=True))
        elif kind == "selfsubjectreviews" and self.allowed is not None:
            value["status"]["userInfo"]["username"] = self.user
        elif kind in ("selfsubjectaccessreviews", "subjectaccessreviews") and self.allowed is not None:
            value["status"]["allowed"] = allows(self.allowed, _asked_for(value["spec"]))
        elif kind == "events" and self.ahead_s:
            made = dt.datetime.fromisoformat(value["metadata"]["creationTimestamp"])
            later = made + dt.timedelta(seconds=self.ahead_s)
            value["metadata"]["creationTimestamp"] = later.strftime("%Y-%m-%dT%H:%M:%SZ")
        else:
            return answer
        return replace(answer, body=json.dumps(value).encode())


def _asked_for(spec: Mapping[str, Any]) -> Right:
    asked = spec["resourceAttributes"]
    resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
    return Right(
        asked.get("group", ""), resource, asked["verb"], asked.get("name", ""), asked.get("namespace", "")
    )


def needed_right(request: Request) -> Right | None:
    """The right that a request needs; None: every authenticated user may send it."""
    parts = request.path.strip("/").split("/")
    if request.path.startswith(_REVIEWS) or parts[0] not in ("api", "apis") or len(parts) < 3:
        return None
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = _VERBS.get(request.method) or ("get" if name else "list")
    return Right(group, "/".join([rest[0], *rest[2:]]), verb, name, namespace)


def allows(allowed: Collection[Right], wanted: Right) -> bool:
    return any(
        (one.group, one.resource, one.verb) == (wanted.group, wanted.resource, wanted.verb)
        and one.name in ("", wanted.name)
        and one.namespace in ("", wanted.namespace)
        for one in allowed
    )


class DoctorEnvironment(ProcessEnvironment):
    def __init__(self, running: sandbox.Sandbox, counted: Counted, server: RealisticFront) -> None:
        super().__init__(running, counted, RealClock())
        self.server = server
        self.flags: dict[str, str] = {"interruption-queue": self.cloud.queue}
        self.service_account = ""
        self.environ = {**self.environ, "KUBECONFIG": str(running.kubeconfig)}

    async def healthy(self) -> None:
        """A class, a NodePool that uses its reservation, and the DNS of the cluster."""
        await self.dns()
        await self.node_class(capacityReservationSelectorTerms=[{"id": self.slots}])
        await self.node_pool(requirements=[ON_DEMAND, SMALL])

    async def dns(self) -> None:
        await self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": rights.DNS_SERVICE, "namespace": rights.SYSTEM_NAMESPACE},
                "spec": {"clusterIP": "10.100.0.10", "ports": [{"port": 53, "protocol": "UDP"}]},
            }
        )

    async def deployment(
        self, name: str, *, image: str = "app:1", replicas: int = 1, account: str = "default"
    ) -> None:
        labels = {"app.kubernetes.io/name": name}
        pod = {"serviceAccountName": account, "containers": [{"name": "main", "image": image}]}
        await self.sandbox.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": rights.SYSTEM_NAMESPACE, "labels": labels},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            }
        )

    async def delete_crd(self, name: str) -> None:
        await self.sandbox.transport.request("DELETE", f"{DEFINITIONS}/{name}", {}, {}, b"")

    async def replace_crd(self, crd: Mapping[str, Any]) -> None:
        await self.delete_crd(crd["metadata"]["name"])
        await sandbox.install([crd], self.sandbox.transport, self.clock)

    async def diagnose(self, patch: pytest.MonkeyPatch) -> tuple[CheckResult, ...]:
        """What `holdfast doctor` would find with these settings."""
        for name in os.environ:
            if name.startswith("AWS_"):
                patch.delenv(name)
        for name, value in self.environ.items():
            if name.startswith("AWS_"):
                patch.setenv(name, value)
        program = settings.read(self.flags, self.environ)
        return await diagnosis.diagnose(program, environ=self.environ, service_account=self.service_account)


@contextlib.asynccontextmanager
async def serving(
    folder: Path, *, reservations: Sequence[Reserved] = (TARGETED,), **cloud: Any
) -> AsyncIterator[DoctorEnvironment]:
    server, counted = RealisticFront(), Counted()
    setup = CloudSetup(reservations=tuple(reservations), throttled=False, **cloud)
    plan = sandbox.Plan(
        folder=folder,
        setup=setup,
        timings=process_environment.QUICK,
        around=lambda inner: counted.around(server.around(inner)),
    )
    async with sandbox.running(plan, clock=RealClock(), ids=RealIds()) as running:
        yield DoctorEnvironment(running, counted, server)
        running.check()


Break = Callable[[DoctorEnvironment], Awaitable[None]]


def diagnosed(
    folder: Path, patch: pytest.MonkeyPatch, break_it: Break, **cloud: Any
) -> tuple[CheckResult, ...]:
    """The results in a set-up that a test prepared."""

    async def main() -> tuple[CheckResult, ...]:
        async with serving(folder, **cloud) as env:
            await break_it(env)
            return await env.diagnose(patch)

    return asyncio.run(main())


def problems(results: Sequence[CheckResult]) -> list[CheckResult]:
    return [one for one in results if one.level in PROBLEMS]


ZONE_A = aws_environment.ZONE_A
