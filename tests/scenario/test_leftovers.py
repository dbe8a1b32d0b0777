"""Only the launch templates and instance profiles that nothing uses are deleted. In virtual time."""

from typing import Any

import pytest

import app_world
import aws_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.sim.aws.service import Caller

HOUR_S = 3600
CALLER = Caller(aws_world.ACCOUNT, "", "")
PATH = f"/karpenter/{aws_world.REGION}/{app_world.NAME}"
TAGS = {
    f"kubernetes.io/cluster/{app_world.NAME}": "owned",
    "eks:eks-cluster-name": app_world.NAME,
    "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}


def templates(world: AppWorld) -> dict[str, str]:
    """The names of all launch templates, by id."""
    return {template.id: template.name for template in world.ec2.world.templates}


def profiles(world: AppWorld) -> set[str]:
    found = world.endpoint.services["iam"].call("ListInstanceProfiles", {"PathPrefix": "/"}, CALLER)
    return {profile["InstanceProfileName"] for profile in found["InstanceProfiles"]}


def add_template(world: AppWorld, name: str, tags: dict[str, str]) -> str:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    request = {
        "LaunchTemplateName": name,
        "LaunchTemplateData": {},
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": listed}],
        "ClientToken": name,
    }
    created = world.ec2.call("CreateLaunchTemplate", request, CALLER)
    return str(created["LaunchTemplate"]["LaunchTemplateId"])


def add_profile(world: AppWorld, name: str, path: str, tags: dict[str, str]) -> None:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    request = {"InstanceProfileName": name, "Path": path, "Tags": listed}
    world.endpoint.services["iam"].call("CreateInstanceProfile", request, CALLER)


async def one_node(world: AppWorld, *, rolls: bool) -> None:
    await world.node_class()
    budget = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%" if rolls else "0"}]}
    requirements = [instance_types("m5.large"), capacity_types("on-demand")]
    await world.node_pool(requirements=requirements, disruption=budget)
    await world.deploy("web", 1)
    await world.until_running(1)


async def change(world: AppWorld, **spec: Any) -> None:
    await world.kube.patch(await world.kube.get(EC2NodeClass, "default"), {"spec": spec})


def in_use(world: AppWorld) -> tuple[set[str], set[str]]:
    """Templates and profiles of the instances that run."""
    return (
        {one.tags["aws:ec2launchtemplate:id"] for one in world.machines},
        {one.spec.profile for one in world.machines},
    )


@pytest.mark.fact("aws-5.5.5", "aws-6.6.3")
def test_class_changes_leave_a_bounded_number_of_templates_and_profiles() -> None:
    async def program(world: AppWorld) -> None:
        await one_node(world, rolls=True)
        for number in range(8):
            role = ("OtherRole", aws_world.ROLE)[number % 2]
            await change(world, userData=f"echo {number}", role=role)
            await world.sleep(HOUR_S / 3)
        await world.until_running(1)
        await world.sleep(2 * HOUR_S)
        created = world.asked("CreateLaunchTemplate")
        assert created >= 8
        assert len(templates(world)) <= 3  # of the current class: for launches and for dry runs
        assert len(profiles(world)) == 1
        used_templates, used_profiles = in_use(world)
        assert used_templates <= templates(world).keys()
        assert used_profiles == profiles(world)
        await world.deploy("more", 1, cpu="1500m")
        await world.until_running(1, "more")

    app_world.run(program)


def test_unused_templates_and_profiles_of_an_earlier_process_are_deleted() -> None:
    async def program(world: AppWorld) -> None:
        await one_node(world, rolls=True)
        for number in range(3):
            await change(world, userData=f"echo {number}", role=("OtherRole", aws_world.ROLE)[number % 2])
            await world.sleep(300)
            await world.restart()
        await world.sleep(3 * HOUR_S)
        assert len(templates(world)) <= 3
        assert len(profiles(world)) == 1

    app_world.run(program)


def test_templates_and_profiles_of_other_owners_are_not_deleted() -> None:
    async def program(world: AppWorld) -> None:
        other_tags = {**TAGS, "eks:eks-cluster-name": "other", "holdfast.dev/cluster": "other"}
        of_other_owners = {
            add_template(world, "karpenter.k8s.aws/1", TAGS),  # of Karpenter
            add_template(world, "karpenter.k8s.aws/2", other_tags),
            add_template(world, "by-hand", {}),
            add_template(
                world, "copy", {**TAGS, "holdfast.dev/cluster": app_world.NAME}
            ),  # not a name of Holdfast
        }
        add_profile(world, "karpenters", f"{PATH}/uid-1/", TAGS)
        add_profile(world, "others", f"/karpenter/{aws_world.REGION}/other/uid-1/", other_tags)
        add_profile(world, "by-hand", "/", {})
        await one_node(world, rolls=True)
        await world.sleep(4 * HOUR_S)
        assert of_other_owners < templates(world).keys()
        assert {"karpenters", "others", "by-hand"} < profiles(world)

    app_world.run(program)


def test_templates_and_profiles_of_running_instances_are_not_deleted() -> None:
    async def program(world: AppWorld) -> None:
        await one_node(world, rolls=False)
        used_templates, used_profiles = in_use(world)
        await change(world, userData="echo new", role="OtherRole")
        await world.sleep(2 * HOUR_S)
        await world.restart()
        await world.sleep(2 * HOUR_S)
        assert in_use(world) == (used_templates, used_profiles)
        assert used_templates < templates(world).keys()
        assert used_profiles < profiles(world)

    app_world.run(program)


def test_deleted_launch_template_is_created_again() -> None:
    async def program(world: AppWorld) -> None:
        await one_node(world, rolls=True)
        for template in templates(world):
            world.ec2.call("DeleteLaunchTemplate", {"LaunchTemplateId": template}, CALLER)
        await world.deploy("more", 1, cpu="1500m")
        await world.until_running(1, "more")
        for template in templates(world):
            world.ec2.call("DeleteLaunchTemplate", {"LaunchTemplateId": template}, CALLER)
        await world.sleep(HOUR_S)  # the permissions are checked again
        node_class = await world.kube.get(EC2NodeClass, "default")
        assert {one.status for one in node_class.status.conditions} == {"True"}
        assert len(templates(world)) >= 1

    app_world.run(program)
