"""What Holdfast answers about gangs beside the reviewed texts: run times, the list, and clusters without the kinds."""

from typing import Any

import pytest

import app_environment
import gang_situations
import kueue_workloads
import provisioning_requests as documents
from app_environment import AppEnvironment
from gang_situations import ask, job, pod_group, request, slots, with_workload
from holdfast import errors
from holdfast.app import explaining

KINDS = ("job", "jobset", "leaderworkerset", "podgroup", "provisioningrequest")


def facts(answer: Any) -> dict[str, str]:
    return {one.name: one.value for one in answer.facts}


@pytest.mark.fact("TI-1", "TI-2", "TI-3")
@pytest.mark.parametrize(
    ("document", "workload", "expected"),
    [
        (job(1), {}, "not stated, so blocks that end soon are used too"),
        (
            job(1, annotations={"holdfast.dev/max-run-duration": "90m"}),
            {},
            "at most 1 hour 30 minutes (annotation holdfast.dev/max-run-duration of the pod)",
        ),
        (job(1, activeDeadlineSeconds=7200), {}, "at most 2 hours (activeDeadlineSeconds of the pod)"),
        (
            job(1, {"activeDeadlineSeconds": 7200}),
            {},
            "until 12:00 UTC (activeDeadlineSeconds of the Job)",
        ),
        (
            job(1, {"activeDeadlineSeconds": 7200, "suspend": True}),
            {},
            "at most 2 hours (activeDeadlineSeconds of the Job)",
        ),
        (
            job(1)
            | {"metadata": {"name": "train", "labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}},
            {},
            "at most 1 minute (label kueue.x-k8s.io/max-exec-time-seconds of the Job)",
        ),
        (
            job(1, activeDeadlineSeconds=7200),
            {"maximumExecutionTimeSeconds": 3600},
            "at most 1 hour (maximumExecutionTimeSeconds of the Workload)",
        ),
    ],
)
def test_job_names_the_field_of_its_run_time(
    document: dict[str, Any], workload: dict[str, Any], expected: str
) -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 1)
        await with_workload(env, document, **workload)
        await env.sleep(30)
        assert facts(await ask(env, "job"))["Run time"] == expected

    app_environment.run(program, kueue=True)


def test_suspended_job_has_the_run_time_of_its_request() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 1)
        found = await with_workload(env, job(3, {"suspend": True}))
        await env.create(documents.TEMPLATES, documents.template(activeDeadlineSeconds=9000))
        document = documents.document(count=3, maxRunDurationSeconds="3600")
        meta = found.metadata
        owner = kueue_workloads.owner(found.api_version, found.kind, meta.name, meta.uid)
        document["metadata"]["ownerReferences"] = [owner]
        await env.create(documents.PATH, document)
        await env.sleep(30)
        expected = "at most 1 hour (parameter maxRunDurationSeconds of the ProvisioningRequest)"
        assert facts(await ask(env, "job"))["Run time"] == expected
        assert facts(await ask(env, "provisioningrequest"))["Run time"] == expected

    app_environment.run(program, kueue=True, requests=True)


def test_list_has_gangs_that_wait_or_book_in_the_order_of_their_rank() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 3)
        await pod_group(env, 1, replicas=1, name="small")
        await env.until_running(1, "small")
        await request(env, 2)
        await gang_situations.has(env, "Provisioned")
        await pod_group(env, 3, replicas=3, name="large")
        await env.sleep(30)
        explain = explaining.explain(env.app)
        found = await explain.answers.gangs.report()
        assert [(row.kind, row.name, row.state) for row in found.items] == [
            ("provisioningrequest", "train", "booked"),
            ("podgroup", "large", "waiting"),
        ]
        booked, waiting = found.items
        assert (booked.pods, booked.needed, booked.located) == (2, 2, 2)
        assert booked.text.startswith("2 pods have capacity on 2 nodes, for 10 minutes.")
        assert (waiting.pods, waiting.needed, waiting.located) == (3, 3, 0)
        assert waiting.text.startswith("PodGroup default/large: none of the 3 pods ")
        assert (found.total, (await explain.reports.status()).gangs) == (2, 2)

    app_environment.run(program, gangs=True, requests=True)


def test_podgroup_with_capacity_is_listed_while_its_nodes_start() -> None:
    async def program(env: AppEnvironment) -> None:
        await gang_situations.pod_group_whose_nodes_start(env)
        (row,) = (await explaining.explain(env.app).answers.gangs.report()).items
        assert (row.state, row.pods, row.located) == ("launching", 3, 3)

    app_environment.run(program, gangs=True, timings=gang_situations.TIMINGS["pod_group_whose_nodes_start"])


def test_search_finds_gangs_and_jobs_by_name_and_by_namespace() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 1)
        await request(env, 2)
        await env.create(gang_situations.JOBS, job(1, {"suspend": True}))
        await env.sleep(30)
        reports = explaining.explain(env.app).reports
        for text in ("rain", "default/tr"):
            hits = {(hit.kind, hit.namespace, hit.name) for hit in (await reports.search(text)).items}
            assert hits == {("job", "default", "train"), ("provisioningrequest", "default", "train")}

    app_environment.run(program, requests=True)


def test_pod_of_a_gang_names_it() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 2)
        await pod_group(env, 3, replicas=3)
        await env.sleep(30)
        (pod, *_) = await env.pods("train")
        assert facts(await ask(env, "pod", pod.metadata.name))["PodGroup"] == "default/train"

    app_environment.run(program, gangs=True)


def test_request_whose_template_is_missing_names_it_before_it_fails() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 3)
        await env.create(documents.PATH, documents.document())
        await env.sleep(5)
        answer = await ask(env, "provisioningrequest")
        assert answer.what == "The ProvisioningRequest waits: its pods cannot be planned."
        assert answer.why == ("PodTemplate train does not exist.",)

    app_environment.run(program, requests=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("served", [{}, gang_situations.SERVED], ids=["without-crds", "with-crds"])
def test_unknown_name_is_not_found(kind: str, served: dict[str, bool]) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.sleep(5)
        with pytest.raises(errors.NotFound, match="nope"):
            await ask(env, kind, "nope")

    app_environment.run(program, **served)


def test_without_the_kinds_nothing_is_listed_and_jobs_are_explained() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 1)
        await env.create(gang_situations.JOBS, job(1))
        await env.until_running(1, "train")
        explain = explaining.explain(env.app)
        assert (await explain.answers.gangs.report()).items == ()
        assert (await explain.reports.status()).gangs == 0
        answer = await ask(env, "job")
        assert answer.what == "The Job has 1 pod: 1 on a node, 0 pending, 0 ended."
        assert not answer.why

    app_environment.run(program)


def test_without_a_leader_the_answer_is_computed_from_a_plan() -> None:
    async def program(env: AppEnvironment) -> None:
        await slots(env, 3)
        await env.sleep(30)
        await request(env, 3)
        await request(env, 4, "large")
        cluster = await env.read_live()
        await cluster.plan()
        answers = explaining.explain(cluster.app, computed="computed").answers
        fits = await answers.explain("provisioningrequest", "default", "train")
        assert fits.why == ("The plan launches nodes for 3 pods of it.",)
        large = await answers.explain("provisioningrequest", "default", "large")
        assert large.why[0].startswith("ProvisioningRequest default/large: ")
        assert (fits.computed, large.computed) == ("computed", "computed")

    app_environment.run(program, requests=True)
