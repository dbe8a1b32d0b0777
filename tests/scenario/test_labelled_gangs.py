"""Gangs of JobSets and LeaderWorkerSets, which only labels of pods name: the real controllers in virtual time, and a
kube-scheduler that binds pods one by one."""

import dataclasses
from typing import Any

import pytest

import app_environment
import labelled_pods
import pod_groups
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.pods import Pod as ApiPod
from holdfast.app import explaining
from holdfast.model.gangs import JOB_SET, LEADER_WORKER_SET
from holdfast.sim.cluster.kinds import Pod
from holdfast.state.conversion.labelled_gangs import GROWS_S

ONE_PER_NODE: dict[str, Any] = {"cpu": "1500m"}  # of an m5.large
AFTER_S = GROWS_S + 30  # a gang that grew is planned long before


async def pools(env: AppEnvironment, slots: int | None = None) -> None:
    """A NodePool of m5.large. `slots`: with only these."""
    large = instance_types("m5.large")
    if slots is None:
        await env.node_class()
        await env.node_pool(requirements=[large])
        return
    terms = [{"id": env.reserve(total=slots).id}]
    await env.node_class(capacityReservationSelectorTerms=terms)
    await env.node_pool(requirements=[large, capacity_types("reserved")])


async def job(env: AppEnvironment, name: str, replicas: int, *, jobs: int = 1, **spec: Any) -> None:
    """The pods of one Job of the JobSet `train`."""
    labels = labelled_pods.job_set(name, jobs=str(jobs))
    await env.deploy(name, replicas, labels=labels, **ONE_PER_NODE, **spec)


async def group(env: AppEnvironment, name: str, replicas: int, *, size: str = "3", **spec: Any) -> None:
    """Pods of the group 0 of the LeaderWorkerSet `serve`."""
    await env.deploy(name, replicas, **labelled_pods.of_group(size=size), **ONE_PER_NODE, **spec)


async def assert_one_launch(env: AppEnvironment, count: int) -> None:
    assert len(env.claims_ever()) == count
    assert len({claim.metadata.creation_timestamp for claim in await env.claims()}) == 1


async def waits(env: AppEnvironment, reason: str) -> None:
    """Nothing was launched, for this reason."""
    await env.sleep(60)
    assert not env.claims_ever()
    found = {event.message for event in await env.events("FailedScheduling")}
    assert any(reason in message for message in found), found


# --- Whole or none ------------------------------------------------------------------------------------


@pytest.mark.fact("GR-1")
def test_all_nodes_of_a_jobset_come_from_one_plan() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=3)
        await job(env, "driver", 1, jobs=2)
        await job(env, "workers", 2, jobs=2)
        await env.until_running(2, "workers")
        await env.until_running(1, "driver")
        await assert_one_launch(env, 3)

    app_environment.run(program)


@pytest.mark.fact("GR-1")
def test_no_node_is_launched_for_a_jobset_without_capacity_for_all_pods() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=2)
        await job(env, "driver", 1, jobs=2)
        await job(env, "workers", 2, jobs=2)
        await waits(env, "JobSet default/train: only 2 of the 3 pods that it needs would have a node")

    app_environment.run(program)


def test_no_node_is_launched_for_a_group_without_capacity_for_all_pods() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=2)
        await group(env, "leader", 1)
        await group(env, "workers", 2)
        await waits(env, "LeaderWorkerSet default/serve-0: only 2 of the 3 pods that it needs would have")

    app_environment.run(program)


def test_groups_of_one_leaderworkerset_are_launched_one_by_one() -> None:
    """Three slots: the first group gets two of them, and the second waits."""

    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=3)
        for index in (0, 1):
            spec = labelled_pods.of_group(index, size="2")
            await env.deploy(f"group-{index}", 2, **spec, **ONE_PER_NODE)
        await env.sleep(90)
        counts = sorted([len(await env.running(f"group-{index}")) for index in (0, 1)])
        assert counts == [0, 2]
        assert len(env.claims_ever()) == 2

    app_environment.run(program)


def test_pods_that_fit_on_nodes_are_bound_and_the_others_are_launched_together() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=3)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.scale("web", 0)
        await job(env, "workers", 3)
        await env.until_running(3, "workers")
        assert len(env.claims_ever()) == 3

    app_environment.run(program)


# --- Running members ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [JOB_SET, LEADER_WORKER_SET])
def test_a_pod_that_replaces_one_member_gets_a_node_alone(source: str) -> None:
    """There is no capacity for a second gang."""

    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=4)
        await (job(env, "workers", 3) if source == JOB_SET else group(env, "workers", 3))
        await env.until_running(3, "workers")
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        first, *others = await env.pods("workers")
        node = (await env.kube.get(ApiPod, first.metadata.name, "default")).spec.node_name
        await env.kube.delete(next(one for one in await env.claims() if one.status.node_name == node))
        await env.until(lambda: is_gone(env, first))
        await env.until_running(3, "workers")
        assert {one.metadata.name for one in others} < {
            one.metadata.name for one in await env.running("workers")
        }
        assert len(env.claims_ever()) == 5

    app_environment.run(program)


async def is_gone(env: AppEnvironment, pod: Pod) -> bool:
    return all(one.metadata.uid != pod.metadata.uid for one in await env.pods("workers"))


# --- Members that come later --------------------------------------------------------------------------


@pytest.mark.fact("GR-2")
def test_later_jobs_of_a_jobset_are_created_when_the_first_is_ready() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=3)
        await job(env, "driver", 1, jobs=2)
        await env.until_running(1, "driver")
        assert len(env.claims_ever()) == 1
        await job(env, "workers", 2, jobs=2)
        await env.until_running(2, "workers")
        assert len(env.claims_ever()) == 3

    app_environment.run(program)


@pytest.mark.fact("GR-2")
def test_later_jobs_of_a_jobset_are_launched_whole_or_not() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=2)
        await job(env, "driver", 1, jobs=2)
        await env.until_running(1, "driver")
        await job(env, "workers", 2, jobs=2)
        await env.sleep(60)
        assert len(env.claims_ever()) == 1
        assert len(await env.running("driver")) == 1

    app_environment.run(program)


@pytest.mark.fact("GR-3")
def test_workers_are_created_when_the_leader_is_ready() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=3)
        await group(env, "leader", 1)
        await env.until_running(1, "leader")
        assert len(env.claims_ever()) == 1
        await group(env, "workers", 2)
        await env.until_running(2, "workers")
        assert len(env.claims_ever()) == 3

    app_environment.run(program)


def test_workers_that_are_created_after_the_batch_are_waited_for() -> None:
    """The leader would take the only slot."""

    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        await group(env, "leader", 1)
        await env.sleep(GROWS_S - 4)
        assert not env.claims_ever()
        await group(env, "workers", 2)
        await env.sleep(60)
        assert not env.claims_ever()

    app_environment.run(program)


def test_a_size_that_is_larger_than_the_group_is_not_waited_for() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await group(env, "workers", 2, size="64")
        await env.sleep(GROWS_S - 4)
        assert not env.claims_ever()
        await env.until_running(2, "workers", within_s=AFTER_S + 30)
        await assert_one_launch(env, 2)

    app_environment.run(program)


def test_pods_with_scheduling_gates_are_not_waited_for() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=2)
        await job(env, "workers", 2, jobs=2)
        await job(env, "suspended", 2, jobs=2, schedulingGates=[{"name": "example.com/quota"}])
        await env.until_running(2, "workers")
        await env.sleep(30)
        assert len(env.claims_ever()) == 2

    app_environment.run(program)


# --- Pods that are planned one by one -----------------------------------------------------------------


@pytest.mark.parametrize("size", ["four", "1000000", "-3"])
def test_pods_with_a_size_that_cannot_be_used_are_planned_one_by_one(size: str) -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        await group(env, "workers", 2, size=size)
        await env.until(lambda: runs(env, 1))

    app_environment.run(program)


def test_pods_without_a_uid_are_planned_one_by_one() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        labels = {f"{labelled_pods.JOB_SET}jobset-name": "train"}
        await env.deploy("workers", 2, labels=labels, **ONE_PER_NODE)
        await env.until(lambda: runs(env, 1))

    app_environment.run(program)


@pytest.mark.parametrize("source", [JOB_SET, LEADER_WORKER_SET])
def test_a_source_that_is_switched_off(source: str) -> None:
    others = frozenset({JOB_SET, LEADER_WORKER_SET} - {source})
    planning = dataclasses.replace(app_environment.SETTINGS.planning, gangs_of=others)

    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        await (job(env, "workers", 2) if source == JOB_SET else group(env, "workers", 2))
        await env.until(lambda: runs(env, 1))

    app_environment.run(program, settings=dataclasses.replace(app_environment.SETTINGS, planning=planning))


def test_a_podgroup_has_precedence() -> None:
    """It needs one of its pods, the JobSet would need both."""

    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        await env.create(pod_groups.PATH, pod_groups.document("group", 1))
        await job(env, "workers", 2, **pod_groups.member("group"))
        await env.until(lambda: runs(env, 1))

    app_environment.run(program, gangs=True)


async def runs(env: AppEnvironment, count: int) -> bool:
    return len(await env.running("workers")) == count


# --- Explanations -------------------------------------------------------------------------------------


def test_the_explanation_of_a_pod_names_its_gang() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=2)
        await job(env, "workers", 3)
        await env.sleep(60)
        pod, *_ = await env.pods("workers")
        answers = explaining.explain(env.app).answers
        found = await answers.explain("pod", "default", pod.metadata.name)
        facts = {one.name: one.value for one in found.facts}
        assert facts["Gang"] == "JobSet default/train: 3 pods, 0 on nodes, 3 needed"
        assert found.why[0].startswith("JobSet default/train: only 2 of the 3 pods")
        (row,) = (await answers.gangs.report()).items
        assert (row.kind, row.namespace, row.name, row.state) == ("jobset", "default", "train", "waiting")
        assert (row.pods, row.needed, row.located) == (3, 3, 0)
        assert row.text.startswith("JobSet default/train: only 2 of the 3 pods")

    app_environment.run(program)


def test_the_search_finds_gangs_of_labels() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        await job(env, "workers", 1)
        await group(env, "leader", 1, size="1")
        await env.sleep(30)
        reports = explaining.explain(env.app).reports
        hits = {(hit.kind, hit.namespace, hit.name) for hit in (await reports.search("default/")).items}
        assert {("jobset", "default", "train"), ("leaderworkerset", "default", "serve-0")} < hits

    app_environment.run(program)


def test_a_jobset_is_explained_by_its_pods_where_labels_make_no_gangs() -> None:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, gangs_of=frozenset[str]())

    async def program(env: AppEnvironment) -> None:
        await pools(env, slots=1)
        await job(env, "workers", 2)
        await env.until(lambda: runs(env, 1))
        found = await explaining.explain(env.app).answers.explain("jobset", "default", "train")
        assert found.what == "The JobSet has 2 pods: 1 on a node, 1 pending, 0 ended."
        assert any("has no free slot" in line for line in found.why)

    app_environment.run(program, settings=dataclasses.replace(app_environment.SETTINGS, planning=planning))
