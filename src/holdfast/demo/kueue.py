"""Plays the part of Kueue: it makes a ProvisioningRequest for each Job of its queue, and starts the Job when the request
is Provisioned.

As with Kueue, a Job of the queue is suspended until then, so it has no pods. The pods get the annotation that names the
request. When the Job ends or is deleted, its request is deleted. There are no quotas and no Workloads.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast import errors, names
from holdfast.api import conditions
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.core.provisioning_answers import PROVISIONED
from holdfast.demo.environment import Environment
from holdfast.model import wording
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.kinds import Job

QUEUE: Final = {"kueue.x-k8s.io/queue-name": "training"}  # the label of a Job
RUN_TIME: Final = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"  # an annotation of a Job
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS: Final = "atomic.holdfast.dev"
_CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
_ENDED: Final = ("Complete", "Failed")


class Kueue:
    def __init__(self, env: Environment, node_pool: str, report: Callable[[str], None]) -> None:
        """`node_pool`: the NodePool of the ResourceFlavor."""
        self._env = env
        self._report = report
        # What a ResourceFlavor adds to the pods.
        self._flavor: Mapping[str, Any] = {
            "nodeSelector": {"karpenter.sh/nodepool": node_pool},
            "tolerations": [{"key": names.BOOKING_TAINT, "operator": "Exists"}],
        }
        self._requested: set[str] = set()  # uids of Jobs

    async def react(self) -> None:
        kube = self._env.sandbox.kube
        found = {
            (one.metadata.namespace, one.metadata.name): one
            for one in (await kube.list(ProvisioningRequest)).items
        }
        jobs = [one for one in (await kube.list(Job)).items if QUEUE.items() <= one.metadata.labels.items()]
        self._requested &= {one.metadata.uid for one in jobs}
        for job in jobs:
            request = found.pop((job.metadata.namespace, job.metadata.name), None)
            await self._advance(job, request)
        for request in found.values():
            if QUEUE.items() <= request.metadata.labels.items():
                await self._delete(request)  # its Job was deleted

    async def _advance(self, job: Job, request: ProvisioningRequest | None) -> None:
        ended = next((one for one in _ENDED if pods.condition(job.status, one).get("status") == "True"), None)
        if ended is not None:
            if request is not None:
                await self._delete(request)
                self._report(f"Job {job.metadata.name} is {ended}; Kueue deletes its ProvisioningRequest")
        elif not job.spec.get("suspend"):
            return
        elif request is None:
            await self._request(job)
        elif conditions.holds(request.status.conditions, PROVISIONED):
            await self._start(job)

    async def _request(self, job: Job) -> None:
        """Creates the request, once: a user may delete it."""
        if job.metadata.uid in self._requested:
            return
        self._requested.add(job.metadata.uid)
        name, template = job.metadata.name, job.spec["template"]
        about = {"name": name, "namespace": job.metadata.namespace, "labels": QUEUE}
        pod = {
            "metadata": {"labels": template.get("metadata", {}).get("labels") or {}},
            "spec": {**template["spec"], **self._flavor},
        }
        run_time = job.metadata.annotations.get(RUN_TIME)
        documents = (
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": about, "template": pod},
            {
                "apiVersion": ProvisioningRequest.api_version,
                "kind": ProvisioningRequest.kind,
                "metadata": about,
                "spec": {
                    "provisioningClassName": CLASS,
                    "parameters": {"maxRunDurationSeconds": run_time} if run_time else {},
                    "podSets": [{"podTemplateRef": {"name": name}, "count": job.spec.get("parallelism", 1)}],
                },
            },
        )
        try:
            for document in documents:
                await self._env.sandbox.create(document)
        except errors.HoldfastError as error:
            self._report(f"Kueue cannot create the ProvisioningRequest of Job {name}: {error}")

    async def _start(self, job: Job) -> None:
        annotations = {CONSUMES: job.metadata.name, _CLASS_NAME: CLASS}
        template = {"metadata": {"annotations": annotations}, "spec": self._flavor}
        change = {"spec": {"suspend": False, "template": template}}
        try:
            await self._env.sandbox.kube.patch(job, change, only_if_unchanged=True)
        except (errors.Conflict, errors.NotFound):
            return  # the next call tries again
        number = wording.count(int(job.spec.get("parallelism", 1)), "pod")
        self._report(f"Kueue starts Job {job.metadata.name}, because its request is Provisioned: {number}")

    async def _delete(self, request: ProvisioningRequest) -> None:
        kube = self._env.sandbox.kube
        name, namespace = request.metadata.name, request.metadata.namespace
        try:
            await kube.delete(request)
            await kube.delete(await kube.get(PodTemplate, name, namespace))
        except errors.NotFound:
            pass
