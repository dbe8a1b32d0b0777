"""PodGroups, ProvisioningRequests and their templates in a fault simulation, and the program that uses the requests.

The harness calls it. `play` does what Kueue does: it starts the pods of a request when the request is Provisioned.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import labelled_pods
import pod_groups
import provisioning_requests as documents
from app_environment import AppEnvironment
from fault_simulation.generate import App, FaultSchedule, Request, Step
from holdfast import errors
from holdfast.api import conditions
from holdfast.api.meta import Object
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.api.scheduling import PodGroup

STEPS: Final = (
    "template",
    "drop template",
    "create request",
    "end request",
    "replace request",
    "replace group",
)
_PLAYS_EVERY_S: Final = 5


class GangWorkloads:
    def __init__(
        self,
        env: AppEnvironment,
        schedule: FaultSchedule,
        wanted: dict[str, int],
        scale: Callable[[str, int], Awaitable[None]],
    ) -> None:
        """`wanted`: replicas by app; `scale` writes them."""
        self._env = env
        self._schedule = schedule
        self._wanted = wanted
        self._scale = scale
        self._requests = {one.name: one for one in schedule.requests}
        self._used: set[str] = set()  # requests by uid for which pods were started

    async def build(self) -> None:
        for app in self._schedule.apps:
            if app.gang == PodGroup.kind:
                await self._env.create(pod_groups.PATH, pod_groups.document(app.name, app.least))

    def pod_fields(self, app: App) -> dict[str, Any]:
        """What makes the pods of an app a gang, or users of a request."""
        if app.consumes:
            return {"annotations": {documents.CONSUMES: app.name}}
        match app.gang:
            case "PodGroup":
                return pod_groups.member(app.name)
            case "JobSet":
                return {"labels": labelled_pods.job_set(f"{app.name}-0", name=app.name)}
            case "LeaderWorkerSet":
                return labelled_pods.of_group(name=app.name, size=str(app.least))
        return {}

    async def do(self, step: Step) -> None:
        name = step.about[0]
        match step.what:
            case "template":
                request = self._requests[name]
                await self._env.create(
                    documents.TEMPLATES, documents.template(name, cpu=f"{request.cpu_millis}m")
                )
            case "drop template":
                await self._delete(PodTemplate, name)
            case "create request":
                await self._create(self._requests[name])
            case "end request":
                await self._end(name)
            case "replace request":
                await self._end(name)
                await self._create(self._requests[name])
            case "replace group":
                if await self._delete(PodGroup, name):
                    await self._env.sleep(step.about[1])
                    least = next(one.least for one in self._schedule.apps if one.name == name)
                    await self._env.create(pod_groups.PATH, pod_groups.document(name, least))

    async def play(self) -> None:
        while True:
            await self._env.sleep(_PLAYS_EVERY_S)
            for one in (await self._env.kube.list(ProvisioningRequest)).items:
                meta, found = one.metadata, one.status.conditions
                request = self._requests[meta.name]
                is_booked = conditions.holds(found, "Provisioned") and not conditions.holds(
                    found, "BookingExpired"
                )
                if is_booked and request.is_used and meta.uid not in self._used:
                    self._used.add(meta.uid)
                    await self._set_replicas(meta.name, request.count)

    async def scene(self) -> dict[str, Any]:
        """Fields of the `Scene`."""
        templates = (await self._env.kube.list(PodTemplate)).items
        return {
            "requests": tuple((await self._env.kube.list(ProvisioningRequest)).items),
            "templates": frozenset(one.metadata.name for one in templates),
        }

    async def _create(self, request: Request) -> None:
        parameters = {
            "maxRunDurationSeconds": request.run_time_s,
            "ValidUntilSeconds": request.valid_for_s,
            "together": "topology.kubernetes.io/zone" if request.is_in_one_zone else None,
        }
        await self._env.create(
            documents.PATH,
            documents.document(
                request.name,
                request.count,
                request.class_name,
                **{key: str(value) for key, value in parameters.items() if value is not None},
            ),
        )

    async def _end(self, name: str) -> None:
        await self._set_replicas(name, 0)
        await self._delete(ProvisioningRequest, name)

    async def _set_replicas(self, name: str, replicas: int) -> None:
        self._wanted[name] = replicas
        await self._scale(name, replicas)

    async def _delete(self, kind: type[Object], name: str) -> bool:
        try:
            await self._env.kube.delete(await self._env.kube.get(kind, name, "default"))
        except errors.NotFound:
            return False
        return True
