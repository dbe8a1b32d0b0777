"""Situations of PodGroups, ProvisioningRequests and Jobs in which a user asks why; for `test_explain.py`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import app_environment
import kueue_workloads
import labelled_pods
import pod_groups
import provisioning_requests as documents
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.kueue import Workload
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.reports import Explanation
from holdfast.api.workloads import JobTimes
from holdfast.app import explaining
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2.entities import Reservation

JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
GPU: Final = "p5.48xlarge"
CPU: Final = "1500m"  # one pod on each m5.large
_MINUTE_S, _HOUR_S = 60, 3600

Situation = Callable[[AppEnvironment], Awaitable[Explanation]]


async def ask(env: AppEnvironment, kind: str, name: str = "train", namespace: str = "default") -> Explanation:
    return await explaining.explain(env.app).answers.explain(kind, namespace, name)


async def slots(env: AppEnvironment, total: int, elsewhere: int = 0) -> Reservation:
    """A NodePool with only the slots of one reservation."""
    found = env.reserve(total=total, elsewhere=elsewhere)
    await env.node_class(capacityReservationSelectorTerms=[{"id": found.id}])
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")])
    return found


async def upcoming_block(env: AppEnvironment) -> None:
    """A NodePool with only the slots of a block that starts in two hours."""
    start_s = env.ec2_clock.now_s() + 2 * _HOUR_S
    block = env.reserve(GPU, 3, kind="capacity-block", start_s=start_s, end_s=start_s + 12 * _HOUR_S)
    await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])
    await env.node_pool(requirements=[instance_types(GPU), capacity_types("reserved")])


async def request(env: AppEnvironment, count: int, name: str = "train", **fields: Any) -> None:
    await env.create(documents.TEMPLATES, documents.template(name))
    await env.create(documents.PATH, documents.document(name, count, **fields))


async def has(env: AppEnvironment, type_: str) -> None:
    async def holds() -> bool:
        return any(
            documents.conditions(one).get(type_, ("",))[0] == "True"
            for one in await env.all(ProvisioningRequest)
        )

    await env.until(holds, within_s=900)


async def pod_group(env: AppEnvironment, least: int, replicas: int, name: str = "train") -> None:
    await env.create(pod_groups.PATH, pod_groups.document(name, least))
    await env.deploy(name, replicas, cpu=CPU, **pod_groups.member(name))


def job(pods: int, spec: dict[str, Any] | None = None, **template: Any) -> dict[str, Any]:
    """The Job `train`. `template`: fields of the metadata and the spec of its pods."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": CPU}}}
    annotations = {"sim.holdfast.dev/runs-for": "86400"} | template.pop("annotations", {})
    of_pod = {
        "metadata": {"labels": {"app": "train"}, "annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "Never"} | template,
    }
    written = {"parallelism": pods, "completions": pods, "template": of_pod} | (spec or {})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": written}


async def with_workload(env: AppEnvironment, document: dict[str, Any], **spec: Any) -> Workload:
    """Creates a Job, and its Workload in place of Kueue."""
    await env.create(JOBS, document)
    (created,) = await env.all(JobTimes)
    await env.create(kueue_workloads.PATH, kueue_workloads.document(created.metadata.uid, **spec))
    (found,) = await env.all(Workload)
    return found


# --- ProvisioningRequests -------------------------------------------------------------------------------


async def request_that_waits_for_the_fourth_slot(env: AppEnvironment) -> Explanation:
    await slots(env, 4, elsewhere=1)
    await request(env, 4)
    await env.sleep(60)
    return await ask(env, "provisioningrequest")


async def request_whose_block_ends_too_soon(env: AppEnvironment) -> Explanation:
    now_s = env.ec2_clock.now_s()
    block = env.reserve(GPU, 3, kind="capacity-block", start_s=now_s - 60, end_s=now_s + 3 * _HOUR_S)
    other = env.reserve("c5.large", total=2)
    await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}, {"id": other.id}])
    await env.node_pool(requirements=[instance_types(GPU), capacity_types("reserved")])
    await request(env, 3, maxRunDurationSeconds="10800")
    await env.sleep(60)
    return await ask(env, "provisioningrequest")


async def request_whose_block_starts_later(env: AppEnvironment) -> Explanation:
    await upcoming_block(env)
    await request(env, 3, maxRunDurationSeconds="10800", ValidUntilSeconds="3600")
    await env.sleep(60)
    return await ask(env, "provisioningrequest")


async def request_behind_another_one(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await request(env, 5, "large")
    await env.sleep(30)
    await request(env, 4)
    await env.sleep(30)
    return await ask(env, "provisioningrequest")


async def request_whose_nodes_start(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await request(env, 3)
    await env.sleep(60)
    return await ask(env, "provisioningrequest")


async def request_that_is_booked(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await request(env, 3)
    await has(env, "Provisioned")
    return await ask(env, "provisioningrequest")


async def request_without_its_template(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await env.create(documents.PATH, documents.document())
    await has(env, "Failed")
    return await ask(env, "provisioningrequest")


async def request_whose_time_is_over(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    await request(env, 3, ValidUntilSeconds="120")
    await has(env, "Failed")
    return await ask(env, "provisioningrequest")


async def request_whose_booking_expired(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await request(env, 3)
    await has(env, "BookingExpired")
    return await ask(env, "provisioningrequest")


async def request_whose_pods_run(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    await request(env, 2)
    await has(env, "Provisioned")
    await env.deploy("train", 2, cpu=CPU, annotations={documents.CONSUMES: "train"})
    await has(env, "BookingExpired")
    return await ask(env, "provisioningrequest")


async def request_of_a_class_that_is_not_answered(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await request(env, 3, class_name="check-capacity.autoscaling.x-k8s.io")
    await env.sleep(30)
    return await ask(env, "provisioningrequest")


# --- PodGroups ------------------------------------------------------------------------------------------


async def pod_group_that_lacks_a_pod(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await pod_group(env, 3, replicas=2)
    await env.sleep(60)
    return await ask(env, "podgroup")


async def pod_group_that_does_not_fit(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    await pod_group(env, 3, replicas=3)
    await env.sleep(60)
    return await ask(env, "podgroup")


async def pod_group_whose_nodes_start(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await pod_group(env, 3, replicas=3)
    await env.sleep(60)
    return await ask(env, "podgroup")


async def pod_group_whose_block_starts_later(env: AppEnvironment) -> Explanation:
    await upcoming_block(env)
    await pod_group(env, 3, replicas=3)
    await env.sleep(60)
    return await ask(env, "podgroup")


async def pod_group_that_runs(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await pod_group(env, 3, replicas=3)
    await env.until_running(3, "train")
    return await ask(env, "podgroup")


async def pod_group_that_does_not_exist(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await env.deploy("train", 2, cpu=CPU, **pod_groups.member())
    await env.sleep(60)
    return await ask(env, "podgroup")


# --- JobSets and LeaderWorkerSets -----------------------------------------------------------------------


async def job_set_that_does_not_fit(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    await env.deploy("driver", 1, cpu=CPU, labels=labelled_pods.job_set("driver", jobs="2"))
    await env.deploy("workers", 2, cpu=CPU, labels=labelled_pods.job_set("workers", jobs="2"))
    await env.sleep(60)
    return await ask(env, "jobset")


async def job_set_whose_nodes_start(env: AppEnvironment) -> Explanation:
    await slots(env, 3)
    await env.deploy("workers", 3, cpu=CPU, labels=labelled_pods.job_set())
    await env.sleep(60)
    return await ask(env, "jobset")


async def job_set_of_kueue_without_pods(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    of_set = kueue_workloads.document()
    owner = kueue_workloads.owner("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "uid-train")
    of_set["metadata"]["ownerReferences"] = [owner]
    await env.create(kueue_workloads.PATH, of_set)
    (workload,) = await env.all(Workload)
    await env.create(documents.TEMPLATES, documents.template())
    document = documents.document(
        "jobset-train-capacity-1", templates={"train": 3}, maxRunDurationSeconds="3600"
    )
    reference = kueue_workloads.owner(
        "kueue.x-k8s.io/v1beta1", "Workload", workload.metadata.name, workload.metadata.uid
    )
    document["metadata"]["ownerReferences"] = [reference]
    await env.create(documents.PATH, document)
    await env.sleep(60)
    return await ask(env, "jobset")


async def leader_worker_set_of_which_a_group_waits(env: AppEnvironment) -> Explanation:
    await _two_groups(env)
    return await ask(env, "leaderworkerset", "serve")


async def group_that_waits(env: AppEnvironment) -> Explanation:
    await _two_groups(env)
    rows = (await explaining.explain(env.app).answers.gangs.report()).items
    return await ask(env, "leaderworkerset", rows[0].name)


async def _two_groups(env: AppEnvironment) -> None:
    """Three slots: one of the groups of two pods waits."""
    await slots(env, 3)
    for index in (0, 1):
        await env.deploy(f"group-{index}", 2, cpu=CPU, **labelled_pods.of_group(index, size="2"))
        await env.sleep(90)


# --- Jobs -----------------------------------------------------------------------------------------------


async def job_of_kueue_whose_request_waits(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    workload = await with_workload(env, job(3, {"suspend": True}), maximumExecutionTimeSeconds=7200)
    await env.create(documents.TEMPLATES, documents.template())
    document = documents.document("job-train-capacity-1", templates={"train": 3})
    reference = kueue_workloads.owner(
        "kueue.x-k8s.io/v1beta1", "Workload", workload.metadata.name, workload.metadata.uid
    )
    document["metadata"]["ownerReferences"] = [reference]
    await env.create(documents.PATH, document)
    await env.sleep(60)
    return await ask(env, "job")


async def job_whose_pod_group_does_not_fit(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    await env.create(pod_groups.PATH, pod_groups.document("train", 3))
    await env.create(JOBS, job(3, {"activeDeadlineSeconds": 2 * _HOUR_S}, **pod_groups.member()))
    await env.sleep(60)
    return await ask(env, "job")


async def job_that_kueue_suspends(env: AppEnvironment) -> Explanation:
    await slots(env, 2)
    await with_workload(env, job(3, {"suspend": True}))
    await env.sleep(60)
    return await ask(env, "job")


SITUATIONS: Final[tuple[Situation, ...]] = (
    request_that_waits_for_the_fourth_slot,
    request_whose_block_ends_too_soon,
    request_whose_block_starts_later,
    request_behind_another_one,
    request_whose_nodes_start,
    request_that_is_booked,
    request_without_its_template,
    request_whose_time_is_over,
    request_whose_booking_expired,
    request_whose_pods_run,
    request_of_a_class_that_is_not_answered,
    pod_group_that_lacks_a_pod,
    pod_group_that_does_not_fit,
    pod_group_whose_nodes_start,
    pod_group_whose_block_starts_later,
    pod_group_that_runs,
    pod_group_that_does_not_exist,
    job_set_that_does_not_fit,
    job_set_whose_nodes_start,
    job_set_of_kueue_without_pods,
    leader_worker_set_of_which_a_group_waits,
    group_that_waits,
    job_of_kueue_whose_request_waits,
    job_whose_pod_group_does_not_fit,
    job_that_kueue_suspends,
)
SERVED: Final = {"gangs": True, "requests": True, "kueue": True}
_SLOW: Final = replace(app_environment.FAST, boot_s=600)
TIMINGS: Final[dict[str, Timings]] = {
    "request_whose_nodes_start": _SLOW,
    "pod_group_whose_nodes_start": _SLOW,
    "job_set_whose_nodes_start": _SLOW,
}
