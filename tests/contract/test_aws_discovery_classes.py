"""Subnets, security groups, images, instance profiles and placement groups of an EC2NodeClass, over the full wire."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from aws_environment import ACCOUNT, KUBERNETES, OTHER, ROLE, TERMS, Environment, LostOnce, condition, run
from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import to_wire
from holdfast.cloud.aws.nodeclass import resolve
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2 import setup as ec2_setup
from holdfast.sim.ec2.images import Image

MINUTE = 60
START_S = Environment().clock.now_s()
TAG = {"karpenter.sh/discovery": ec2_setup.CLUSTER}


def subnet(subnet_id: str, zone_id: str = "usw2-az1", **fields: Any) -> ec2_setup.Subnet:
    plain: dict[str, Any] = {"account": ACCOUNT, "cidr": "10.0.0.0/24", "tags": TAG}
    return ec2_setup.Subnet(id=subnet_id, zone_id=zone_id, **(plain | fields))


def group(group_id: str, name: str, **tags: str) -> ec2_setup.SecurityGroup:
    return ec2_setup.SecurityGroup(id=group_id, account=ACCOUNT, name=name, tags=tags)


def image(image_id: str, **fields: Any) -> Image:
    plain: dict[str, Any] = {"name": image_id, "architecture": "x86_64", "created_s": START_S - 1000}
    return Image(id=image_id, **(plain | fields))


@pytest.mark.fact("aws-1.4.1", "aws-1.4.2")
def test_a_class_whose_selectors_find_everything_is_ready() -> None:
    env = Environment()
    found = env.resolve(env.node_class())
    assert [c.type for c in found.status.conditions if c.status == "True"] == [
        resolve.AMIS,
        resolve.RESERVATIONS,
        resolve.PLACEMENT_GROUP,
        resolve.SUBNETS,
        resolve.SECURITY_GROUPS,
        resolve.INSTANCE_PROFILE,
        resolve.VALIDATION,
        "Ready",
    ]
    assert {c.observed_generation for c in found.status.conditions} == {1}


# --- Subnets ------------------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.3.1", "aws-1.2.5", "aws-8.4.1", "aws-8.4.3")
@pytest.mark.parametrize(
    ("terms", "ids"),
    [
        (TERMS, ["subnet-c", "subnet-a", "subnet-b"]),
        ([{"id": "subnet-b"}], ["subnet-b"]),
        ([{"tags": {"Name": "*private*"}}], ["subnet-d"]),
        ([{"tags": {"Name": "*", "kind": "x"}}], ["subnet-d"]),
        ([{"id": "subnet-b"}, {"tags": {"Name": "*"}}, {"id": "subnet-d"}], ["subnet-b", "subnet-d"]),
    ],
)
def test_subnets_with_most_free_addresses_come_first(terms: list[dict[str, Any]], ids: list[str]) -> None:
    env = Environment(
        subnets=(
            subnet("subnet-b", addresses=100),
            subnet("subnet-a", "usw2-az2", addresses=100),
            subnet("subnet-c", addresses=200),
            subnet("subnet-d", addresses=50, tags={"Name": "my-private-1", "kind": "x"}),
            subnet("subnet-e", account=OTHER),
        )
    )
    found = env.resolve(env.node_class(subnetSelectorTerms=terms)).status.subnets
    assert [one.id for one in found] == ids
    zones = {one.id: (one.zone, one.zone_id) for one in found}
    assert "subnet-a" not in zones or zones["subnet-a"] == ("us-west-2a", "usw2-az2")


@pytest.mark.fact("aws-1.4.1", "aws-1.5.5")
def test_class_without_subnets_is_not_ready_and_has_a_reason() -> None:
    env = Environment()
    found = env.resolve(env.node_class(subnetSelectorTerms=[{"tags": {"who": "nobody"}}]))
    status, reason, message = condition(found, resolve.SUBNETS)
    assert (status, reason) == ("False", "SubnetsNotFound")
    assert "none of the 4 subnets" in message
    assert condition(found, resolve.VALIDATION)[:2] == ("False", "DependenciesNotReady")
    assert condition(found, "Ready")[0] == "False"


def test_status_drops_subnets_that_are_no_longer_selected() -> None:
    env = Environment()
    before = env.resolve(env.node_class())
    after = env.resolve(replace_spec(env, before, subnetSelectorTerms=[{"id": "subnet-gone"}]))
    assert before.status.subnets
    assert after.status.subnets == ()


def replace_spec(env: Environment, node_class: EC2NodeClass, **spec: Any) -> EC2NodeClass:
    """The class after an edit by the user."""
    return env.node_class(node_class.metadata.name, status=to_wire(node_class).get("status", {}), **spec)


# --- Security groups ----------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.3.2", "aws-8.4.2")
@pytest.mark.parametrize(
    ("terms", "ids"),
    [
        ([{"tags": {"team": "*"}}], ["sg-1", "sg-2"]),
        ([{"name": "nodes-b"}], ["sg-2"]),
        ([{"name": "nodes-*"}], ["sg-1", "sg-2"]),
        ([{"id": "sg-3"}], ["sg-3"]),
        ([{"id": "sg-3"}, {"name": "nodes-b"}, {"tags": {"team": "b"}}], ["sg-2", "sg-3"]),
    ],
)
def test_security_groups_are_sorted_by_id(terms: list[dict[str, Any]], ids: list[str]) -> None:
    groups = (group("sg-2", "nodes-b", team="b"), group("sg-1", "nodes-a", team="a"), group("sg-3", "other"))
    env = Environment(security_groups=groups)
    found = env.resolve(env.node_class(securityGroupSelectorTerms=terms)).status.security_groups
    assert [one.id for one in found] == ids
    names_by_id = {"sg-1": "nodes-a", "sg-2": "nodes-b", "sg-3": "other"}
    assert {one.id: one.name for one in found} == {id_: names_by_id[id_] for id_ in ids}


def test_class_without_security_groups_has_a_false_condition() -> None:
    env = Environment()
    found = env.resolve(env.node_class(securityGroupSelectorTerms=[{"name": "nobody"}]))
    assert condition(found, resolve.SECURITY_GROUPS)[:2] == ("False", "SecurityGroupsNotFound")


# --- Images -------------------------------------------------------------------------------------------

GPU, ACCELERATOR = aws.INSTANCE_GPU_COUNT, aws.INSTANCE_ACCELERATOR_COUNT
STANDARD = {f"{GPU} DoesNotExist", f"{ACCELERATOR} DoesNotExist"}
NVIDIA, NEURON = {f"{GPU} Exists"}, {f"{ACCELERATOR} Exists"}
AMD64, ARM64 = {f"{names.ARCH} In amd64"}, {f"{names.ARCH} In arm64"}


def images_of(node_class: EC2NodeClass) -> list[tuple[str, set[str]]]:
    """Each image by the end of its name, with its requirements."""
    return sorted(
        (
            (ami.name or "").split("-", 1)[1].removesuffix(f"-{KUBERNETES}"),
            {f"{r.key} {r.operator} {' '.join(r.values)}".strip() for r in ami.requirements},
        )
        for ami in node_class.status.amis
    )


def sort_key(image: tuple[str, set[str]]) -> tuple[str, list[str]]:
    """Sorts the sets: their order differs between runs."""
    return image[0], sorted(image[1])


@pytest.mark.fact("aws-8.1.1", "aws-8.1.3")
@pytest.mark.parametrize(
    ("alias", "kubernetes", "images"),
    [
        (
            "al2023@latest",
            KUBERNETES,
            [
                ("arm64-nvidia", ARM64 | NVIDIA),
                ("arm64-standard", ARM64 | STANDARD),
                ("x86_64-neuron", AMD64 | NEURON),
                ("x86_64-nvidia", AMD64 | NVIDIA),
                ("x86_64-standard", AMD64 | STANDARD),
            ],
        ),
        (
            "bottlerocket@latest",
            KUBERNETES,
            [
                ("arm64-nvidia", ARM64 | NVIDIA),
                ("arm64-standard", ARM64 | STANDARD),
                ("x86_64-nvidia", AMD64 | NVIDIA),
                ("x86_64-standard", AMD64 | NEURON),
                ("x86_64-standard", AMD64 | STANDARD),
            ],
        ),
        (
            "windows2022@latest",
            KUBERNETES,
            [
                (
                    "x86_64-standard",
                    AMD64 | {f"{names.OS} In windows", f"{names.WINDOWS_BUILD} In 10.0.20348"},
                )
            ],
        ),
        (
            "al2@latest",
            "1.32",
            [
                ("arm64-standard-1.32", ARM64 | STANDARD),
                ("x86_64-gpu-1.32", AMD64 | NEURON),
                ("x86_64-gpu-1.32", AMD64 | NVIDIA),
                ("x86_64-standard-1.32", AMD64 | STANDARD),
            ],
        ),
    ],
)
def test_alias_resolves_to_the_images_that_aws_publishes(
    alias: str, kubernetes: str, images: list[tuple[str, set[str]]]
) -> None:
    env = Environment(kubernetes=kubernetes)
    found = env.resolve(env.node_class(amiSelectorTerms=[{"alias": alias}]))
    assert sorted(images_of(found), key=sort_key) == sorted(images, key=sort_key)


@pytest.mark.fact("aws-1.4.1")
@pytest.mark.parametrize(("alias", "kubernetes"), [("al2@latest", "1.33"), ("windows2025@latest", "1.34")])
def test_alias_without_images_for_the_kubernetes_version_is_unsupported(alias: str, kubernetes: str) -> None:
    env = Environment(kubernetes=kubernetes)
    found = env.resolve(env.node_class(amiSelectorTerms=[{"alias": alias}]))
    status, reason, message = condition(found, resolve.AMIS)
    assert (status, reason) == ("False", "UnsupportedAlias")
    assert kubernetes in message


@pytest.mark.fact("aws-8.1.1")
def test_alias_with_a_version_resolves_to_that_image() -> None:
    name = f"amazon-eks-node-al2023-x86_64-standard-{KUBERNETES}-v20260101"
    path = f"/aws/service/eks/optimized-ami/{KUBERNETES}/amazon-linux-2023/x86_64/standard/{name}/image_id"
    rocket = f"/aws/service/bottlerocket/aws-k8s-{KUBERNETES}/arm64/1.46.0/image_id"
    env = Environment(images=(image("ami-old"), image("ami-rocket", architecture="arm64")))
    env.parameters |= {path: "ami-old", rocket: "ami-rocket"}
    for alias, found in (("al2023@v20260101", "ami-old"), ("bottlerocket@v1.46.0", "ami-rocket")):
        node_class = env.resolve(env.node_class(amiSelectorTerms=[{"alias": alias}]))
        assert [ami.id for ami in node_class.status.amis] == [found]


@pytest.mark.fact("aws-8.1.4", "aws-1.3.3")
@pytest.mark.parametrize(
    ("terms", "ids"),
    [
        ([{"id": "ami-1"}, {"id": "ami-2"}], ["ami-2", "ami-1"]),  # newest first
        ([{"name": "golden-*"}], ["ami-2", "ami-1"]),  # of this account and of Amazon
        ([{"name": "golden-*", "owner": "self"}], ["ami-1"]),
        ([{"name": "golden-*", "owner": OTHER}], ["ami-3"]),
        ([{"tags": {"stage": "prod"}}], ["ami-1"]),
        ([{"tags": {"stage": "*"}}], ["ami-1"]),
        ([{"ssmParameter": "/golden/id"}], ["ami-2"]),
        ([{"ssmParameter": "/nowhere"}], []),
    ],
)
def test_images_are_selected_by_id_name_owner_tags_and_parameter(
    terms: list[dict[str, Any]], ids: list[str]
) -> None:
    env = Environment(
        images=(
            image("ami-1", name="golden-1", owner=ACCOUNT, tags={"stage": "prod"}, created_s=START_S - 300),
            image("ami-2", name="golden-2", architecture="arm64", created_s=START_S - 200),
            image("ami-3", name="golden-3", owner=OTHER, created_s=START_S - 100),
        )
    )
    env.parameters["/golden/id"] = "ami-2"
    found = env.resolve(env.node_class(amiFamily="Custom", amiSelectorTerms=terms))
    assert [ami.id for ami in found.status.amis] == ids
    assert condition(found, resolve.AMIS)[:2] == (("True", resolve.AMIS) if ids else ("False", "AMINotFound"))


@pytest.mark.fact("aws-8.1.5")
@pytest.mark.parametrize(
    ("images", "best"),
    [
        ([image("ami-1", created_s=START_S - 9), image("ami-2", created_s=START_S - 5)], "ami-2"),
        ([image("ami-1"), image("ami-2", created_s=START_S - 5, deprecated_s=START_S - 1)], "ami-1"),
        (
            [image("ami-1", deprecated_s=START_S - 1), image("ami-2", deprecated_s=START_S - 1, created_s=9)],
            "ami-1",
        ),
        ([image("ami-1", name="a"), image("ami-2", name="b")], "ami-2"),
    ],
)
def test_best_of_the_images_for_the_same_instances_is_selected(images: list[Image], best: str) -> None:
    for order in (images, images[::-1]):
        env = Environment(images=tuple(order))
        terms = [{"id": "ami-1"}, {"id": "ami-2"}]
        found = env.resolve(env.node_class(amiFamily="Custom", amiSelectorTerms=terms)).status.amis
        assert [ami.id for ami in found] == [best]
        chosen = next(one for one in images if one.id == best)
        assert bool(found[0].deprecated) == bool(chosen.deprecated_s)


@pytest.mark.fact("aws-8.1.2")
def test_parameters_are_read_once_a_day_and_again_when_their_image_is_deprecated() -> None:
    env = Environment(images=(image("ami-1", deprecated_s=START_S + 3 * 3600), image("ami-2")))
    path = (
        f"/aws/service/eks/optimized-ami/{KUBERNETES}/amazon-linux-2023/x86_64/standard/recommended/image_id"
    )
    env.parameters.clear()
    env.parameters[path] = "ami-1"  # the other four do not exist
    node_class = env.resolve(env.node_class())
    assert env.asked("GetParameter") == 5
    for _ in range(30):
        env.clock.advance(MINUTE)
        node_class = env.resolve(node_class)
    assert env.asked("GetParameter") == 5
    env.parameters[path] = "ami-2"
    for _ in range(4):
        env.clock.advance(3600)
        node_class = env.resolve(node_class)
    assert [ami.id for ami in node_class.status.amis] == ["ami-2"]


@pytest.mark.fact("aws-8.1.6")
def test_images_are_read_every_five_minutes_for_all_classes() -> None:
    env = Environment()
    terms = [{"name": "*"}]
    classes = [
        env.node_class(f"c{n}", amiFamily="Custom", userData="x", amiSelectorTerms=terms) for n in range(3)
    ]
    for minute in range(10):
        for node_class in classes:
            env.resolve(node_class)
        assert env.asked("DescribeImages") == (1 if minute < 5 else 2)
        env.clock.advance(MINUTE)


@pytest.mark.fact("aws-8.4.1", "aws-8.4.2")
def test_subnets_and_security_groups_are_read_once_for_all_classes() -> None:
    env = Environment()
    classes = [env.node_class(f"c{n}") for n in range(3)]
    for _ in range(10):
        for node_class in classes:
            env.resolve(node_class)
        env.clock.advance(MINUTE)
    for operation, times in (("DescribeSubnets", 10), ("DescribeSecurityGroups", 2)):
        asked = [call.params for call in env.endpoint.log if call.operation == operation]
        assert len(asked) == times
        assert all(
            set(params) <= {"MaxResults"} for params in asked
        )  # no filters: Holdfast matches the terms itself


# --- Instance profiles --------------------------------------------------------------------------------


def profiles(env: Environment) -> dict[str, dict[str, Any]]:
    answer = run(env.calls.call("iam", "ListInstanceProfiles", PathPrefix="/karpenter/"))
    return {profile["InstanceProfileName"]: profile for profile in answer["InstanceProfiles"]}


@pytest.mark.fact("aws-8.3.1", "aws-1.3.4")
def test_role_gets_one_instance_profile() -> None:
    env = Environment()
    node_class = env.resolve(env.node_class(role=f"some/path/{ROLE}"))
    ((name, profile),) = profiles(env).items()
    assert node_class.status.instance_profile == name
    assert name.startswith(f"{ec2_setup.CLUSTER}_")
    assert profile["Path"] == f"/karpenter/us-west-2/{ec2_setup.CLUSTER}/uid-default/"
    assert [role["RoleName"] for role in profile["Roles"]] == [ROLE]
    env.discovery = env.restarted()
    assert env.resolve(node_class).status.instance_profile == name
    assert len(profiles(env)) == 1


@pytest.mark.fact("aws-8.3.1")
def test_another_role_gets_another_instance_profile() -> None:
    env = Environment()
    first = env.resolve(env.node_class())
    second = env.resolve(replace_spec(env, first, role="OtherRole"))
    assert first.status.instance_profile != second.status.instance_profile
    assert set(profiles(env)) == {first.status.instance_profile, second.status.instance_profile}


def profile_of_karpenter(env: Environment, path: str, role: str) -> EC2NodeClass:
    """A class whose status names a profile that Karpenter created."""
    name = f"{ec2_setup.CLUSTER}_1234567890"
    run(env.calls.call("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path))
    run(env.calls.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role))
    node_class = env.node_class()
    return msgspec.structs.replace(
        node_class, status=msgspec.structs.replace(node_class.status, instance_profile=name)
    )


CLASS_PATH = f"/karpenter/us-west-2/{ec2_setup.CLUSTER}/uid-default/"


def test_instance_profile_of_karpenter_is_kept() -> None:
    env = Environment()
    before = profile_of_karpenter(env, CLASS_PATH, ROLE)
    node_class = env.resolve(before)
    assert node_class.status.instance_profile == before.status.instance_profile
    assert set(profiles(env)) == {before.status.instance_profile}
    env.discovery = env.restarted()
    assert env.resolve(node_class).status.instance_profile == before.status.instance_profile
    run(env.discovery.release(node_class))
    assert profiles(env) == {}


@pytest.mark.parametrize(
    ("path", "role"), [(CLASS_PATH, "OtherRole"), ("/karpenter/us-west-2/another/uid-default/", ROLE)]
)
def test_instance_profile_with_another_role_or_of_another_class_is_not_used(path: str, role: str) -> None:
    env = Environment()
    before = profile_of_karpenter(env, path, role)
    node_class = env.resolve(before)
    assert node_class.status.instance_profile not in ("", before.status.instance_profile)
    assert set(profiles(env)) == {before.status.instance_profile, node_class.status.instance_profile}
    assert [one["RoleName"] for one in profiles(env)[before.status.instance_profile or ""]["Roles"]] == [role]


@pytest.mark.fact("aws-8.3.1")
def test_unknown_role_is_reported_and_leaves_no_instance_profile() -> None:
    env = Environment()
    node_class = env.node_class(role="nobody")
    for _ in range(3):
        node_class = env.resolve(node_class)
    assert condition(node_class, resolve.INSTANCE_PROFILE)[:2] == ("False", "RoleNotFound")
    assert profiles(env) == {}
    assert env.asked("CreateInstanceProfile") == 1
    env.clock.advance(MINUTE)
    env.resolve(node_class)
    assert env.asked("CreateInstanceProfile") == 2


@pytest.mark.fact("aws-8.3.2")
def test_instance_profile_of_the_spec_is_used_without_calls_to_iam() -> None:
    env = Environment()
    found = env.resolve(env.node_class(role=None, instanceProfile="mine"))
    assert found.status.instance_profile == "mine"
    assert not [call for call in env.endpoint.log if call.service == "iam"]


@pytest.mark.fact("aws-8.3.3")
def test_instance_profile_is_read_at_most_every_15_minutes() -> None:
    env = Environment()
    node_class = env.node_class()
    for _ in range(15):
        node_class = env.resolve(node_class)
        env.clock.advance(MINUTE)
    assert env.asked("GetInstanceProfile") == 1
    env.resolve(node_class)
    assert env.asked("GetInstanceProfile") == 2


@pytest.mark.parametrize("operation", ["CreateInstanceProfile", "AddRoleToInstanceProfile"])
def test_next_resolve_completes_the_profile_after_a_lost_answer(operation: str) -> None:
    env = Environment()
    env.endpoint.faults = LostOnce(operation)
    node_class = env.resolve(env.node_class())
    assert condition(node_class, resolve.INSTANCE_PROFILE)[:2] == ("Unknown", "CouldNotRead")
    node_class = env.resolve(node_class)
    assert condition(node_class, resolve.INSTANCE_PROFILE)[0] == "True"
    ((name, profile),) = profiles(env).items()
    assert node_class.status.instance_profile == name
    assert [role["RoleName"] for role in profile["Roles"]] == [ROLE]


class ProfileNotVisibleYet(NoFaults):
    """IAM is eventually consistent: the first call after a profile is created does not find it."""

    def __init__(self) -> None:
        self._left = 1

    def fault(self, _: str, operation: str, __: Mapping[str, Any]) -> ApiError | None:
        if operation != "AddRoleToInstanceProfile" or not self._left:
            return None
        self._left -= 1
        return ApiError("NoSuchEntity", "Instance Profile holdfast_1 cannot be found.", 404)


def test_profile_that_iam_does_not_find_yet_is_not_reported_as_a_missing_role() -> None:
    env = Environment()
    env.endpoint.faults = ProfileNotVisibleYet()
    node_class = env.resolve(env.node_class())
    assert condition(node_class, resolve.INSTANCE_PROFILE)[0] == "Unknown"
    assert len(profiles(env)) == 1
    assert condition(env.resolve(node_class), resolve.INSTANCE_PROFILE)[0] == "True"


@pytest.mark.fact("aws-1.6.4")
def test_instance_profile_of_a_released_class_is_deleted() -> None:
    env = Environment()
    other_class = env.resolve(env.node_class("kept"))
    released_class = env.resolve(env.node_class("gone"))
    with_new_role = env.resolve(replace_spec(env, released_class, role="OtherRole"))
    both_roles = {released_class.status.instance_profile, with_new_role.status.instance_profile}
    assert set(profiles(env)) == {other_class.status.instance_profile} | both_roles
    for _ in range(2):
        run(env.discovery.release(with_new_role))
    assert set(profiles(env)) == {other_class.status.instance_profile}


@pytest.mark.fact("aws-6.6.3")
def test_unused_instance_profiles_are_deleted_when_they_are_old() -> None:
    env = Environment()
    used, unused = env.resolve(env.node_class("kept")), env.resolve(env.node_class("old"))
    in_use = {str(used.status.instance_profile)}
    run(env.discovery.collect_profiles(in_use))
    assert len(profiles(env)) == 2
    env.clock.advance(3601)
    run(env.discovery.collect_profiles(in_use))
    assert len(profiles(env)) == 2  # a launch in flight may use it
    env.clock.advance(600)
    run(env.discovery.collect_profiles(in_use))
    assert set(profiles(env)) == in_use
    assert unused.status.instance_profile not in profiles(env)


# --- Placement groups ---------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.4.1")
def test_missing_placement_group_makes_the_class_unready() -> None:
    made = ec2_setup.PlacementGroup(id="pg-0a1b2c3d4e5f60718", account=ACCOUNT, name="tight")
    env = Environment(placement_groups=(made,))
    for selector, verdict in (
        ({"name": "tight"}, ("True", resolve.PLACEMENT_GROUP)),
        ({"id": made.id}, ("True", resolve.PLACEMENT_GROUP)),
        ({"name": "loose"}, ("False", "PlacementGroupNotFound")),
        ({"id": "pg-0000"}, ("False", "PlacementGroupNotFound")),
    ):
        found = env.resolve(env.node_class(placementGroupSelector=selector))
        assert condition(found, resolve.PLACEMENT_GROUP)[:2] == verdict
        assert (condition(found, "Ready")[0] == "True") == (verdict[0] == "True")


# --- When AWS does not answer ---------------------------------------------------------------------------


@pytest.mark.fact("aws-1.4.1", "aws-1.4.2")
@pytest.mark.parametrize(
    ("operation", "condition_type", "field"),
    [
        ("DescribeSubnets", resolve.SUBNETS, "subnets"),
        ("DescribeSecurityGroups", resolve.SECURITY_GROUPS, "security_groups"),
        ("DescribeImages", resolve.AMIS, "amis"),
    ],
)
def test_failed_read_leaves_status_and_condition_unchanged(
    operation: str, condition_type: str, field: str
) -> None:
    env = Environment(rules=[faults.Broken(operation=operation, from_s=START_S + 60)])
    before = env.resolve(env.node_class())
    env.clock.advance(600)
    patch = run(env.discovery.resolve(before))
    assert len(patch) == 4 + 2  # every field but the one that could not be read
    after = env.resolve(before)
    assert getattr(after.status, field) == getattr(before.status, field) != ()
    assert condition(after, condition_type) == condition(before, condition_type)
    assert any(reason == "CouldNotRead" and operation in text for _, reason, text in env.records.events)


def test_condition_is_unknown_with_the_error_before_the_first_successful_read() -> None:
    env = Environment(rules=[faults.Denied(operation="DescribeSubnets")])
    found = env.resolve(env.node_class())
    status, reason, message = condition(found, resolve.SUBNETS)
    assert (status, reason) == ("Unknown", "CouldNotRead")
    assert "UnauthorizedOperation" in message
    assert condition(found, resolve.VALIDATION)[:2] == ("Unknown", "DependenciesNotReady")
    assert condition(found, "Ready")[0] == "Unknown"
    assert found.status.security_groups
