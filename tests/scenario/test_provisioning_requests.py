"""ProvisioningRequests: the embedded API server, the simulated EC2 and the real controllers in virtual time."""

import dataclasses
from typing import Any

import pytest

import app_environment
import gang_situations
import kueue_workloads
import provisioning_requests as documents
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.kueue import Workload
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
GPU = "p5.48xlarge"
CHECK, ATOMIC = "check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
STANDARD = dataclasses.replace(app_environment.SETTINGS, provisioning_requests=True)
WRITES = 12  # of the life of a request, at least
MINUTE_S = 60


async def reserved_pool(env: AppEnvironment, total: int, **template: Any) -> Reservation:
    """A NodePool with only these slots."""
    slots = env.reserve(total=total)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await env.node_pool(requirements=[LARGE, capacity_types("reserved")], **template)
    return slots


async def pool(env: AppEnvironment) -> None:
    await env.node_class()
    await env.node_pool(requirements=[LARGE])


async def request(env: AppEnvironment, count: int = 3, **fields: Any) -> None:
    await env.create(documents.TEMPLATES, documents.template())
    await env.create(documents.PATH, documents.document(count=count, **fields))


async def found(env: AppEnvironment) -> ProvisioningRequest:
    (one,) = await env.all(ProvisioningRequest)
    return one


async def conditions(env: AppEnvironment) -> dict[str, tuple[str, str]]:
    return documents.conditions(await found(env))


async def message(env: AppEnvironment, type_: str = "Provisioned") -> str:
    return next(one.message or "" for one in (await found(env)).status.conditions if one.type == type_)


async def until(env: AppEnvironment, type_: str, status: str = "True", within_s: float = 300) -> float:
    async def holds() -> bool:
        return (await conditions(env)).get(type_, ("", ""))[0] == status

    return await env.until(holds, within_s=within_s)


async def ready_nodes(env: AppEnvironment) -> int:
    return len([node for node in await env.nodes() if "karpenter.sh/initialized" in node.metadata.labels])


async def start_pods(env: AppEnvironment, replicas: int = 3, of: str = "train", **spec: Any) -> None:
    """Pods as Kueue starts them once the request is provisioned."""
    await env.deploy("train", replicas, cpu="1500m", annotations={documents.CONSUMES: of}, **spec)


@pytest.mark.fact("PR-18", "PR-20", "PR-22")
def test_request_is_provisioned_when_the_last_node_is_ready_and_consumed_when_its_pods_run() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await reserved_pool(env, 3)
        await request(env)
        await until(env, "Provisioned")
        assert await ready_nodes(env) == env.in_reservation(slots) == 3
        assert await conditions(env) == {
            "Accepted": ("True", "Accepted"),
            "Provisioned": ("True", "CapacityIsProvisioned"),
        }
        assert (await found(env)).status.provisioning_class_details["reservation"] == slots.id
        await start_pods(env)
        await env.until_running(3, "train")
        await until(env, "BookingExpired", within_s=20)
        assert (await conditions(env))["BookingExpired"] == ("True", "CapacityBookingConsumed")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-11")
def test_nothing_is_launched_while_there_is_no_capacity_for_all_pods() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 2)
        await request(env)
        await until(env, "Provisioned", "False")
        await env.sleep(60)
        assert not env.claims_ever()
        text = "ProvisioningRequest default/train: only 2 of the 3 pods that it needs would have a node (2 in cr-"
        assert (await message(env)).startswith(text)

    app_environment.run(program, requests=True)


def test_request_that_waits_is_provisioned_when_a_slot_becomes_free() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await reserved_pool(env, 3)
        control.take(env.ec2.region, slots.id, 1)  # another account uses a slot
        await request(env)
        await until(env, "Provisioned", "False")
        control.give(env.ec2.region, slots.id, 1)
        await until(env, "Provisioned")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-19")
def test_booking_ends_after_ten_minutes_and_its_nodes_are_consolidated() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env)
        await until(env, "Provisioned")
        await env.sleep(9 * MINUTE_S)
        assert len(await env.claims()) == 3
        await until(env, "BookingExpired", within_s=MINUTE_S + 15)
        assert (await conditions(env))["BookingExpired"] == ("True", "CapacityReservationTimeExpired")
        await env.until(lambda: no_nodes(env), within_s=5 * MINUTE_S)

    app_environment.run(program, requests=True)


async def no_nodes(env: AppEnvironment) -> bool:
    return not await env.claims() and not await env.nodes()


@pytest.mark.fact("PR-22")
def test_booked_capacity_is_planned_for_no_other_request() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 3)
        await request(env)
        await until(env, "Provisioned")
        await env.create(documents.PATH, documents.document("other", templates={"train": 1}))
        await env.sleep(60)
        assert await provisioned(env) == {"train": "True", "other": "False"}

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-35")
def test_booking_ends_at_once_when_another_pod_uses_its_capacity() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 3)
        await request(env)
        await until(env, "Provisioned")
        assert (await message(env)).endswith("so other pods may use the capacity.")
        await env.deploy("web", 1, cpu="1500m")  # kube-scheduler does not know requests
        await env.until_running(1)
        await until(env, "BookingExpired", within_s=20)
        text = "The capacity is not held any more: ProvisioningRequest default/train: only 2 of the 3 pods that it needs"
        assert (await message(env, "BookingExpired")).startswith(text)

    app_environment.run(program, requests=True)


def test_taint_keeps_other_pods_out_of_the_capacity() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 3, taints=[{"key": "holdfast.dev/booking", "effect": "NoSchedule"}])
        tolerations = [{"key": "holdfast.dev/booking", "operator": "Exists"}]
        await env.create(documents.TEMPLATES, documents.template(tolerations=tolerations))
        await env.create(documents.PATH, documents.document())
        await until(env, "Provisioned")
        assert await message(env) == "3 pods have capacity on 3 nodes, for 10 minutes."
        await env.deploy("web", 1, cpu="1500m")
        await env.sleep(60)
        assert not await env.running()
        await start_pods(env, tolerations=tolerations)
        await env.until_running(3, "train")

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-10")
def test_check_capacity_launches_nothing() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env, class_name=CHECK)
        await until(env, "Provisioned", "False")
        await env.sleep(60)
        assert not env.claims_ever()

    app_environment.run(program, requests=True, settings=STANDARD)


@pytest.mark.fact("PR-14")
def test_check_that_may_not_be_repeated_fails_at_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env, class_name=CHECK, noRetry="true")
        await until(env, "Failed", within_s=20)
        assert (await conditions(env))["Failed"] == ("True", "CapacityIsNotFound")

    app_environment.run(program, requests=True, settings=STANDARD)


@pytest.mark.fact("PR-10")
def test_check_capacity_books_capacity_on_existing_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        await with_free_nodes(env, 2)
        await request(env, count=2, class_name=CHECK)
        await until(env, "Provisioned")
        assert (await conditions(env))["Provisioned"] == ("True", "CapacityIsFound")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, requests=True, settings=STANDARD)


@pytest.mark.fact("PR-11")
def test_pods_that_fit_on_existing_nodes_get_no_new_node() -> None:
    async def program(env: AppEnvironment) -> None:
        await with_free_nodes(env, 2)
        await request(env, class_name=ATOMIC)
        await until(env, "Provisioned")
        assert (await conditions(env))["Provisioned"] == ("True", "CapacityIsProvisioned")
        assert len(env.claims_ever()) == 4

    app_environment.run(program, requests=True, settings=STANDARD)


@pytest.mark.fact("PR-16", "PR-19")
def test_request_fails_when_its_time_is_over() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 2)
        await request(env, ValidUntilSeconds="120")
        await env.sleep(110)
        assert "Failed" not in await conditions(env)
        await until(env, "Failed", within_s=20)
        assert (await conditions(env))["Failed"] == ("True", "Expired")

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-17", "TI-4")
def test_request_uses_only_a_block_that_lasts() -> None:
    async def program(env: AppEnvironment) -> None:
        now_s = env.clock.now_s()
        block = env.reserve(GPU, 3, kind="capacity-block", start_s=now_s - 60, end_s=now_s + 3 * 3600)
        await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])
        await env.node_pool(requirements=[instance_types(GPU), capacity_types("reserved")])
        await env.create(documents.TEMPLATES, documents.template(cpu="150"))
        await env.create(documents.PATH, documents.document(maxRunDurationSeconds="10800"))
        await env.sleep(60)
        assert "ends too soon" in await message(env)
        assert not env.claims_ever()
        await env.kube.delete(await found(env))
        await env.create(documents.PATH, documents.document(maxRunDurationSeconds="7200"))
        await until(env, "Provisioned")
        assert env.in_reservation(block) == 3

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-21")
def test_pod_that_uses_a_request_is_planned_only_after_it_ends() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 2)
        await request(env, ValidUntilSeconds="180")
        await start_pods(env, 1)
        await env.sleep(120)
        assert not env.claims_ever()
        events = {one.message for one in await env.events("FailedScheduling")}
        assert (
            "ProvisioningRequest default/train: the pod uses this request, which waits for capacity" in events
        )
        await until(env, "Failed")
        await env.until_running(1, "train")

    app_environment.run(program, requests=True)


@pytest.mark.parametrize("count", [10_001, 2_000_000_000])
def test_request_of_too_many_pods_fails_and_others_do_not(count: int) -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env, count=count)
        await until(env, "Failed")
        text = f"The pods of the request cannot be planned: the request has {count} pods"
        assert (await message(env, "Failed")).startswith(text)
        await env.create(documents.PATH, documents.document("small", templates={"train": 1}))
        await env.until(lambda: has_claims(env))

    app_environment.run(program, requests=True)


def test_request_with_wrong_pods_fails_with_the_reason() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        wrong = [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wrong}}
        template = documents.template(affinity={"nodeAffinity": required})
        await env.create(documents.TEMPLATES, template)
        await env.create(documents.PATH, documents.document())
        await until(env, "Failed")
        assert (await conditions(env))["Failed"] == ("True", "FailedToCreatePods")

    app_environment.run(program, requests=True)


def test_details_name_no_reservation_if_the_capacity_is_in_several() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = [env.reserve(total=2) for _ in range(2)]
        await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await request(env)
        await until(env, "Provisioned")
        assert set((await found(env)).status.provisioning_class_details) == {"nodes-0"}

    app_environment.run(program, requests=True)


def test_booking_keeps_its_nodes_over_a_restart() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env)
        await until(env, "Provisioned")
        details = (await found(env)).status.provisioning_class_details
        nodes = {node.metadata.name for node in await env.nodes()}
        assert {entry.partition("=")[0] for entry in details["nodes-0"].split(",")} == nodes
        await env.restart()
        await env.sleep(3 * MINUTE_S)
        assert {node.metadata.name for node in await env.nodes()} == nodes
        assert "BookingExpired" not in await conditions(env)
        await start_pods(env)
        await env.until_running(3, "train")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, requests=True)


def life(crash_at: int | None) -> list[str]:
    """Provisions a request, runs its pods, and crashes once after a write; returns all writes."""
    written: list[str] = []

    async def program(env: AppEnvironment) -> None:
        slots = await reserved_pool(env, 3)
        await env.sleep(5)
        first = len(env.crashing.writes)
        if crash_at is not None:
            env.crashing.crash_after_write(first + crash_at, after_effect=True)
        await request(env)
        if crash_at is not None:
            await env.crashing.crashed.wait()
            await env.restart(after_s=5)
        await until(env, "Provisioned")
        assert env.in_reservation(slots) == len(env.ec2_instances) == 3
        await start_pods(env)
        await env.until_running(3, "train")
        await until(env, "BookingExpired", within_s=20)
        assert (await conditions(env))["BookingExpired"][1] == "CapacityBookingConsumed"
        assert len(env.ec2_instances) == 3
        written.extend(env.writes()[first:])

    app_environment.run(program, requests=True)
    return written


def test_life_of_a_request_has_at_least_these_writes() -> None:
    assert len(life(None)) >= WRITES


@pytest.mark.parametrize("crash_at", range(WRITES))
def test_request_is_provisioned_whole_after_a_crash_at_any_write(crash_at: int) -> None:
    life(crash_at)


def test_requests_are_provisioned_in_the_order_of_their_age() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await reserved_pool(env, 4)
        control.take(env.ec2.region, slots.id, 4)
        await env.create(documents.TEMPLATES, documents.template())
        for number in range(3):
            document = documents.document(f"job-{number}", templates={"train": 2})
            await env.create(documents.PATH, document)
            await env.sleep(2)
        await env.sleep(20)
        control.give(env.ec2.region, slots.id, 4)
        await env.sleep(60)
        assert await provisioned(env) == {"job-0": "True", "job-1": "True", "job-2": "False"}

    app_environment.run(program, requests=True)


async def provisioned(env: AppEnvironment) -> dict[str, str]:
    """The status of Provisioned by request."""
    requests = await env.all(ProvisioningRequest)
    return {one.metadata.name: documents.conditions(one)["Provisioned"][0] for one in requests}


async def with_free_nodes(env: AppEnvironment, count: int) -> None:
    """Nodes without pods, beside one with a pod."""
    await env.node_class()
    await env.node_pool(requirements=[LARGE], disruption={"consolidateAfter": "Never"})
    await env.deploy("web", count + 1, cpu="1500m")
    await env.until_running(count + 1)
    await env.scale("web", 1)
    await env.sleep(5)


@pytest.mark.fact("PR-12", "PR-13")
@pytest.mark.parametrize("class_name", ["check-capacity.autoscaling.x-k8s.io", "queued-provisioning.gke.io"])
def test_request_of_another_class_gets_no_condition(class_name: str) -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env, class_name=class_name)
        await env.sleep(120)
        assert await conditions(env) == {}
        assert not env.claims_ever()

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-8")
def test_request_without_its_template_fails_after_ten_seconds() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await env.create(documents.PATH, documents.document())
        await env.sleep(8)
        assert "Failed" not in await conditions(env)
        await until(env, "Failed", within_s=10)
        assert await message(env, "Failed") == "PodTemplate train not found."

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-8")
def test_request_of_the_same_name_gets_no_answer_of_the_one_before() -> None:
    """Kueue deletes a request and creates one of the same name, whose template is garbage collected."""

    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env)
        await until(env, "Provisioned")
        await start_pods(env, 1)
        await env.until_running(1, "train")
        (template,) = await env.all(PodTemplate)
        await env.kube.delete(await found(env))
        await env.kube.delete(template)
        await env.create(documents.PATH, documents.document())
        await until(env, "Failed", within_s=30)
        assert "Provisioned" not in await conditions(env)

    app_environment.run(program, requests=True)


def test_booking_ends_at_once_when_a_node_of_it_dies() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 3)
        await request(env)
        await until(env, "Provisioned")
        control.kill(env.ec2.region, env.ec2_instances[0].id)
        await until(env, "BookingExpired", within_s=120)
        assert (await conditions(env))["BookingExpired"] == ("True", "CapacityIsNotFound")

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-8")
def test_template_may_be_created_after_the_request() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await env.create(documents.PATH, documents.document())
        await env.sleep(5)
        await env.create(documents.TEMPLATES, documents.template())
        await until(env, "Provisioned")

    app_environment.run(program, requests=True)


def test_nodes_of_a_request_that_is_deleted_are_removed() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await request(env)
        await env.until(lambda: has_claims(env))
        await env.kube.delete(await found(env))
        await env.until(lambda: no_nodes(env))
        (template,) = await env.all(PodTemplate)
        assert template.metadata.name == "train"

    app_environment.run(program, requests=True)


async def has_claims(env: AppEnvironment) -> bool:
    return bool(await env.claims())


# --- The Workload of a request lost its quota ---------------------------------------------------------


async def of_workload(env: AppEnvironment, name: str = "train") -> None:
    """A request whose owner is a Workload of Kueue with quota."""
    await env.create(kueue_workloads.PATH, kueue_workloads.document())
    (workload,) = await env.all(Workload)
    await set_quota(env, has_quota=True)
    meta = workload.metadata
    owner = kueue_workloads.owner(workload.api_version, workload.kind, meta.name, meta.uid)
    document = documents.document(name)
    document["metadata"]["ownerReferences"] = [owner]
    await env.create(documents.TEMPLATES, documents.template())
    await env.create(documents.PATH, document)


async def set_quota(env: AppEnvironment, *, has_quota: bool) -> None:
    (workload,) = await env.all(Workload)
    status = {"status": kueue_workloads.quota(has_quota=has_quota)}
    await env.kube.patch(workload, status, status=True, only_if_unchanged=True)


@pytest.mark.fact("PR-35")
def test_booking_ends_and_its_nodes_are_removed_when_its_workload_is_evicted() -> None:
    """Kueue would admit the Workload again on the old answer, and until then the nodes would run without pods."""

    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await of_workload(env)
        await until(env, "Provisioned")
        await set_quota(env, has_quota=False)
        await until(env, "BookingExpired", within_s=5)
        assert (await conditions(env))["BookingExpired"] == ("True", "WorkloadEvicted")
        await env.until(lambda: no_nodes(env), within_s=3 * MINUTE_S)

    app_environment.run(program, requests=True, kueue=True)


def test_nothing_is_launched_for_a_request_while_its_workload_has_no_quota() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await reserved_pool(env, 3)
        control.take(env.ec2.region, slots.id, 3)
        await of_workload(env)
        await until(env, "Provisioned", "False")
        await set_quota(env, has_quota=False)
        await env.sleep(20)
        assert "has no quota" in await message(env)
        control.give(env.ec2.region, slots.id, 3)
        await env.sleep(3 * MINUTE_S)
        assert not env.claims_ever()
        await set_quota(env, has_quota=True)
        await until(env, "Provisioned")
        assert env.in_reservation(slots) == 3

    app_environment.run(program, requests=True, kueue=True)


def test_launch_ends_when_the_workload_of_its_request_is_evicted() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env)
        await of_workload(env)
        await env.until(lambda: has_claims(env))
        await set_quota(env, has_quota=False)
        await env.until(lambda: no_nodes(env), within_s=3 * MINUTE_S)
        assert (
            "Provisioned" not in await conditions(env) or (await conditions(env))["Provisioned"][0] == "False"
        )
        assert not env.ec2_instances

    app_environment.run(program, requests=True, kueue=True)


def test_explain_says_that_a_request_without_quota_is_not_planned() -> None:
    """It has no rank among those that wait for capacity."""

    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, 1)
        await of_workload(env)
        await set_quota(env, has_quota=False)
        await env.create(documents.TEMPLATES, documents.template("other"))
        await env.create(documents.PATH, documents.document("other", templates={"other": 2}))
        await env.sleep(30)
        answer = await gang_situations.ask(env, "provisioningrequest")
        text = "The ProvisioningRequest is not planned: its Workload has no quota for its 3 pods."
        assert answer.what == text
        assert "Rank" not in {fact.name for fact in answer.facts}
        other = await gang_situations.ask(env, "provisioningrequest", "other")
        (rank,) = (fact.value for fact in other.facts if fact.name == "Rank")
        assert rank.startswith("1 of 1 waiting gang, ")

    app_environment.run(program, requests=True, kueue=True)
