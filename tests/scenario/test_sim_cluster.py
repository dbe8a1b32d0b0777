"""A cluster with nobody in charge of its nodes: what Kubernetes itself does with instances launched by hand."""

from cluster_world import World, reason, run
from holdfast.sim.cluster.kinds import Deployment, Node


def test_a_deployment_that_grows_ends_in_running_pods_on_instances_launched_by_hand() -> None:
    async def program(world: World) -> None:
        await world.deploy(replicas=3)
        await world.sleep(5)
        assert [reason(pod) for pod in await world.pods()] == [
            ("Unschedulable", "no nodes available to schedule pods")
        ] * 3
        world.launch()
        assert 50 < await world.until_running(3) < 70  # pending, boot, ready, start
        await world.scale("web", 6)
        world.launch(zone="b")
        await world.until_running(6)
        deployment = await world.kube.get(Deployment, "web", "default")
        assert deployment.status["availableReplicas"] == deployment.status["updatedReplicas"] == 6
        assert len({pod.spec["nodeName"] for pod in await world.pods()}) == 2
        assert len(await world.all(Node)) == 2

    run(program)
