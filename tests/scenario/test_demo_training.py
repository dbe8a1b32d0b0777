"""The training story of the demo in virtual time: every step takes place within its time, and every screen fits."""

from collections.abc import Callable, Iterator

import pytest

import demo_environment
from demo_environment import Play
from holdfast.api.nodes import Node
from holdfast.demo import changes, layout, view
from holdfast.demo.gangs import GangStatus
from holdfast.demo.kueue import CONSUMES
from holdfast.demo.status import Status
from holdfast.demo.stories import STORIES
from holdfast.demo.training import BLOCK_TYPE, DRAINED_S, END_S, ODCR_TYPE, STARTS_S, STEPS
from holdfast.demo.view import Frame
from holdfast.sim.cluster.kinds import Job, Pod

KIND = STORIES["training"]
READY_S = 75  # from a launch until the pods run
FIRST, NEXT, ODCR = range(3)  # of the reservations


@pytest.fixture(scope="module")
def play() -> Play:
    """The whole story, once for all tests of the module."""
    found: list[Play] = []

    async def use(one: Play) -> None:
        found.append(one)
        await one.until(END_S + 60)

    demo_environment.run(KIND, use)
    return found[0]


def at(play: Play, second: float) -> Status:
    return next(one for one in play.seen if one.elapsed_s >= second)


def step_s(text: str) -> float:
    return next(one.at_s for one in STEPS if text in one.message)


def gang(status: Status, name: str) -> GangStatus:
    return next(one for one in status.gangs if one.name == name)


def first_s(play: Play, holds: Callable[[Status], bool]) -> float:
    """When the condition held first."""
    return next(one.elapsed_s for one in play.seen if holds(one))


def used(status: Status) -> list[int]:
    return [one.used for one in status.reservations]


def test_reservations_are_a_block_an_upcoming_block_and_an_odcr(play: Play) -> None:
    first, following, odcr = at(play, 1).reservations
    assert [one.instance_type for one in (first, following, odcr)] == [BLOCK_TYPE, BLOCK_TYPE, ODCR_TYPE]
    assert [one.kind for one in (first, following, odcr)] == ["capacity block", "capacity block", "targeted"]
    assert (first.state, following.state, odcr.state) == ("active", "scheduled", "active")
    assert odcr.ends_in_s is None


def test_job_that_fits_has_no_pods_until_its_request_is_provisioned_and_then_runs(play: Play) -> None:
    provisioned_s = first_s(play, lambda now: any(one.state == "Provisioned=True" for one in now.gangs))
    assert provisioned_s < step_s("Job llama") + READY_S
    assert all(not now.replicas.get("llama") for now in play.seen if now.elapsed_s < provisioned_s)
    assert used(at(play, provisioned_s)) == [3, 0, 0]
    assert first_s(play, lambda now: now.running.get("llama") == 3) < provisioned_s + 15
    assert gang(at(play, provisioned_s + 15), "llama").running == 3


def test_job_that_needs_more_slots_waits_with_what_is_missing_and_runs_on_nodes_that_get_free(
    play: Play,
) -> None:
    asked_s, ended_s = step_s("Job vision"), first_s(play, lambda now: "vision" in now.running)
    waiting = gang(at(play, asked_s + 5), "vision")
    assert (waiting.state, waiting.running) == ("Provisioned=False", 0)
    first = at(play, 1).reservations[FIRST].id
    assert waiting.message.startswith(
        f"only 1 of the 2 pods that it needs would have a node (1 in {first}); "
    )
    nodes = {one.claim for one in at(play, asked_s).nodes}
    assert {one.claim for one in at(play, asked_s + 60).nodes} == nodes
    on = {one.claim for one in at(play, ended_s).nodes if ("vision", 1) in one.pods}
    assert len(on) == 2
    assert on < nodes


def test_job_that_runs_longer_than_the_block_waits_for_the_next_one(play: Play) -> None:
    first, following, _ = at(play, 1).reservations
    asked_s = step_s("Job pretrain")
    waiting = gang(at(play, asked_s + 5), "pretrain")
    assert (waiting.state, waiting.run_time_s) == ("Provisioned=False", 8 * 3600)
    assert f"block {first.id} ends too soon" in waiting.message
    assert f"block {following.id} starts at" in waiting.message
    assert all(not used(now)[NEXT] for now in play.seen if now.elapsed_s < STARTS_S)
    runs_s = first_s(play, lambda now: now.running.get("pretrain") == 2)
    assert STARTS_S < runs_s < STARTS_S + READY_S
    after = [now for now in play.seen if now.elapsed_s > runs_s]
    assert all(now.running["pretrain"] == 2 for now in after), "a pod of it was evicted"
    on = {one.reservation_id for now in after for one in now.nodes if ("pretrain", 1) in one.pods}
    assert on == {following.id}


def test_gang_is_launched_whole(play: Play) -> None:
    incomplete_s, complete_s = step_s("PodGroup eval needs"), step_s("second pod")
    assert gang(at(play, incomplete_s + 5), "eval").message == "has 1 of the 2 pods that it needs"
    counts = {used(now)[ODCR] for now in play.seen}
    assert counts == {0, 2}
    assert all(used(now)[ODCR] == 0 for now in play.seen if now.elapsed_s < complete_s)
    runs_s = first_s(play, lambda now: bool(now.gangs) and now.gangs[-1].running == 2 and "eval-worker" in now.running)  # fmt: skip
    assert runs_s < complete_s + READY_S
    assert gang(at(play, runs_s), "eval").state == "scheduled"


def test_block_is_drained_before_its_end_and_its_job_runs_again_in_the_next_block(play: Play) -> None:
    first, following, _ = at(play, 1).reservations
    before = at(play, DRAINED_S - 1)
    (node,) = (one for one in before.nodes if one.reservation_id == first.id)
    assert (node.pods, node.state) == ((("sweep", 1),), "ready")
    empty_s = first_s(play, lambda now: now.elapsed_s > DRAINED_S and not used(now)[FIRST])
    assert empty_s < DRAINED_S + 60
    again_s = first_s(play, lambda now: now.elapsed_s > empty_s and now.running.get("sweep") == 1)
    assert again_s < DRAINED_S + READY_S
    (node,) = (one for one in at(play, again_s).nodes if ("sweep", 1) in one.pods)
    assert node.reservation_id == following.id


def test_pods_of_the_queue_name_their_request_and_requests_of_ended_jobs_are_deleted() -> None:
    async def use(play: Play) -> None:
        kube = play.env.sandbox.kube
        await play.until(20)
        assert [job.spec["suspend"] for job in (await kube.list(Job)).items] == [True]
        assert (await kube.list(Pod)).items == ()
        assert (await kube.list(Node)).items == ()
        await play.until(80)
        pods = (await kube.list(Pod)).items
        assert [pod.metadata.annotations[CONSUMES] for pod in pods] == ["llama"] * 3
        now = await play.until(380)
        assert "Job llama is Complete; Kueue deletes its ProvisioningRequest" in play.log
        assert "llama" not in {one.name for one in now.gangs}

    demo_environment.run(KIND, use)


def test_job_of_a_user_is_started_and_its_request_is_deleted_with_it() -> None:
    """Also without the steps of the story."""
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "example/mine", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
            ],
        }
    }
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "labels": {"kueue.x-k8s.io/queue-name": "training"}},
        "spec": {"suspend": True, "template": template},
    }

    async def use(play: Play) -> None:
        await play.env.sandbox.create(document)
        now = await play.until(90, has_steps=False)
        assert [(one.name, one.state) for one in now.gangs] == [("mine", "Provisioned=True")]
        kube = play.env.sandbox.kube
        assert now.gangs[0].running == 1
        await kube.delete(await kube.get(Job, "mine", "default"))
        now = await play.until(100, has_steps=False)
        assert now.gangs == ()

    demo_environment.run(KIND, use)


def screens(play: Play) -> Iterator[tuple[Status, list[str]]]:
    """The screen of 80 columns and 24 lines of each second."""
    log: list[str] = []
    addresses = tuple((name, "x" * 60) for name in ("Page", "In another terminal", "Controller log"))
    frame = Frame("Holdfast demo at 10x speed", addresses, KIND.tips, 80, 24, color=False)
    before = play.seen[0]
    for now in play.seen:
        log += [f"{view.clock(now.elapsed_s)}  {sentence}" for sentence in changes.describe(before, now)]
        yield now, view.draw(now, log, frame)
        before = now


def test_every_screen_fits_80_columns_and_24_lines_and_has_all_reservations_requests_and_the_log(
    play: Play,
) -> None:
    for now, lines in screens(play):
        assert len(lines) <= 24
        assert max(map(layout.visible, lines)) <= 80
        text = "\n".join(lines)
        assert all(f"  {one.id}" in text for one in now.reservations)
        for one in now.gangs:
            assert any(one.name in line and f"{one.running} of {one.pods} run" in line for line in lines), (
                text
            )
            assert not one.message or f"\n    {one.message[:30]}" in text
        assert "\nNodes\n" in text
        assert "\nLog\n" in text


def test_screen_states_when_the_next_block_starts_and_why_a_request_waits(play: Play) -> None:
    at_s = step_s("Job pretrain") + 10
    lines = next(lines for now, lines in screens(play) if now.elapsed_s >= at_s)
    text = "\n".join(lines)
    assert "0 of 4 in use  starts in 0:07:" in text
    assert "pretrain  2 pods  at most 8 hours    Provisioned=False  0 of 2 run" in text
    assert "starts at" in text
