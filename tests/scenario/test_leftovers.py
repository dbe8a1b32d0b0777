"""Only the launch templates and instance profiles that nothing uses are deleted. In virtual time."""

from typing import Any

import pytest

import app_environment
import aws_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.sim.aws.service import Caller

HOUR_S = 3600
CALLER = Caller(aws_environment.ACCOUNT, "", "")
PATH = f"/karpenter/{aws_environment.REGION}/{app_environment.NAME}"
TAGS = {
    f"kubernetes.io/cluster/{app_environment.NAME}": "owned",
    "eks:eks-cluster-name": app_environment.NAME,
    "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}


def templates(env: AppEnvironment) -> dict[str, str]:
    """The names of all launch templates, by id."""
    return {template.id: template.name for template in env.ec2.region.templates}


def profiles(env: AppEnvironment) -> set[str]:
    found = env.endpoint.services["iam"].call("ListInstanceProfiles", {"PathPrefix": "/"}, CALLER)
    return {profile["InstanceProfileName"] for profile in found["InstanceProfiles"]}


def add_template(env: AppEnvironment, name: str, tags: dict[str, str]) -> str:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    request = {
        "LaunchTemplateName": name,
        "LaunchTemplateData": {},
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": listed}],
        "ClientToken": name,
    }
    created = env.ec2.call("CreateLaunchTemplate", request, CALLER)
    return str(created["LaunchTemplate"]["LaunchTemplateId"])


def add_profile(env: AppEnvironment, name: str, path: str, tags: dict[str, str]) -> None:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    request = {"InstanceProfileName": name, "Path": path, "Tags": listed}
    env.endpoint.services["iam"].call("CreateInstanceProfile", request, CALLER)


async def one_node(env: AppEnvironment, *, rolls: bool) -> None:
    await env.node_class()
    budget = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%" if rolls else "0"}]}
    requirements = [instance_types("m5.large"), capacity_types("on-demand")]
    await env.node_pool(requirements=requirements, disruption=budget)
    await env.deploy("web", 1)
    await env.until_running(1)


async def change(env: AppEnvironment, **spec: Any) -> None:
    await env.kube.patch(await env.kube.get(EC2NodeClass, "default"), {"spec": spec})


def in_use(env: AppEnvironment) -> tuple[set[str], set[str]]:
    """Templates and profiles of the instances that run."""
    return (
        {one.tags["aws:ec2launchtemplate:id"] for one in env.ec2_instances},
        {one.spec.profile for one in env.ec2_instances},
    )


@pytest.mark.fact("aws-5.5.5", "aws-6.6.3")
def test_class_changes_leave_a_bounded_number_of_templates_and_profiles() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_node(env, rolls=True)
        for number in range(8):
            role = ("OtherRole", aws_environment.ROLE)[number % 2]
            await change(env, userData=f"echo {number}", role=role)
            await env.sleep(HOUR_S / 3)
        await env.until_running(1)
        await env.sleep(2 * HOUR_S)
        created = env.asked("CreateLaunchTemplate")
        assert created >= 8
        assert len(templates(env)) <= 3  # of the current class: for launches and for dry runs
        assert len(profiles(env)) == 1
        used_templates, used_profiles = in_use(env)
        assert used_templates <= templates(env).keys()
        assert used_profiles == profiles(env)
        await env.deploy("more", 1, cpu="1500m")
        await env.until_running(1, "more")

    app_environment.run(program)


def test_unused_templates_and_profiles_of_an_earlier_process_are_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_node(env, rolls=True)
        for number in range(3):
            await change(env, userData=f"echo {number}", role=("OtherRole", aws_environment.ROLE)[number % 2])
            await env.sleep(300)
            await env.restart()
        await env.sleep(3 * HOUR_S)
        assert len(templates(env)) <= 3
        assert len(profiles(env)) == 1

    app_environment.run(program)


def test_templates_and_profiles_of_other_owners_are_not_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        other_tags = {**TAGS, "eks:eks-cluster-name": "other", "holdfast.dev/cluster": "other"}
        of_other_owners = {
            add_template(env, "karpenter.k8s.aws/1", TAGS),  # of Karpenter
            add_template(env, "karpenter.k8s.aws/2", other_tags),
            add_template(env, "by-hand", {}),
            add_template(
                env, "copy", {**TAGS, "holdfast.dev/cluster": app_environment.NAME}
            ),  # not a name of Holdfast
        }
        add_profile(env, "karpenters", f"{PATH}/uid-1/", TAGS)
        add_profile(env, "others", f"/karpenter/{aws_environment.REGION}/other/uid-1/", other_tags)
        add_profile(env, "by-hand", "/", {})
        await one_node(env, rolls=True)
        await env.sleep(4 * HOUR_S)
        assert of_other_owners < templates(env).keys()
        assert {"karpenters", "others", "by-hand"} < profiles(env)

    app_environment.run(program)


def test_templates_and_profiles_of_running_instances_are_not_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_node(env, rolls=False)
        used_templates, used_profiles = in_use(env)
        await change(env, userData="echo new", role="OtherRole")
        await env.sleep(2 * HOUR_S)
        await env.restart()
        await env.sleep(2 * HOUR_S)
        assert in_use(env) == (used_templates, used_profiles)
        assert used_templates < templates(env).keys()
        assert used_profiles < profiles(env)

    app_environment.run(program)


def test_deleted_launch_template_is_created_again() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_node(env, rolls=True)
        for template in templates(env):
            env.ec2.call("DeleteLaunchTemplate", {"LaunchTemplateId": template}, CALLER)
        await env.deploy("more", 1, cpu="1500m")
        await env.until_running(1, "more")
        for template in templates(env):
            env.ec2.call("DeleteLaunchTemplate", {"LaunchTemplateId": template}, CALLER)
        await env.sleep(HOUR_S)  # the permissions are checked again
        node_class = await env.kube.get(EC2NodeClass, "default")
        assert {one.status for one in node_class.status.conditions} == {"True"}
        assert len(templates(env)) >= 1

    app_environment.run(program)
