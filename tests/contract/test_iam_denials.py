"""What the published IAM policy denies. Each attempt is sent over the wire to the simulated AWS; each condition and each
resource of the policy is needed to deny one of them."""

import copy
import functools
import itertools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

import iam_rights
import sim_aws
from holdfast.sim.aws import policy
from holdfast.sim.aws.policy import Access, Decision, Policy
from holdfast.sim.aws.service import Caller
from holdfast.sim.cloud import Cloud
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.sim.ec2.setup import ACCOUNT, CLUSTER
from holdfast.sim.guard import Guard
from manual_ports import ManualClock, SeededIds

ROOT = Path(__file__).parents[2]
REGION = sim_aws.REGION
OTHER_REGION = "eu-west-1"
ROLE = f"KarpenterNodeRole-{CLUSTER}"
ADMINISTRATOR = "Administrator"
PATH = f"/karpenter/{REGION}/{CLUSTER}/uid/"
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
NAMED = {"eks:eks-cluster-name": CLUSTER}
POOL = {"karpenter.sh/nodepool": "default"}
CLASS = {"karpenter.k8s.aws/ec2nodeclass": "default"}
TAGS = OWNED | NAMED | POOL | CLASS
SMALL = {"InstanceType": "m5.large"}
NOT_OURS = {
    "no tags": {},
    "only the tag of the cluster": OWNED | NAMED,
    "only the tag of a NodePool": POOL | NAMED,
    "another cluster": {"kubernetes.io/cluster/other": "owned"} | POOL,
    "a shared cluster tag": {f"kubernetes.io/cluster/{CLUSTER}": "shared"} | POOL,
}
UNNAMED = OWNED | POOL | CLASS  # of launch templates beside Karpenter
INCOMPLETE = {
    "no tags": {},
    "no tag of the cluster": NAMED | POOL | CLASS,
    "no name of the cluster": UNNAMED,
    "no NodePool": OWNED | NAMED | CLASS,
    "another cluster": TAGS | {"eks:eks-cluster-name": "other"},
}
NOT_OUR_PROFILES = {
    "no tags": {},
    "no tag of the cluster": NAMED | CLASS,
    "no class": OWNED | NAMED,
}
MANAGED_POLICY_MAX = 6144  # characters without white space


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call that must be denied."""

    name: str
    service: str
    operation: str
    params: Mapping[str, Any]
    region: str = REGION

    def __str__(self) -> str:
        return f"{self.operation}: {self.name}"


@dataclass
class Account:
    """A simulated AWS with objects of other owners in it."""

    cloud: Cloud
    attempts: list[Attempt] = field(default_factory=list)

    @functools.cached_property
    def guard(self) -> Guard:
        return Guard(iam_rights.published(), ec2=self.cloud.ec2, iam=self.cloud.iam)

    def create(self, service: str, operation: str, **params: Any) -> Any:
        """Creates an object as an administrator."""
        return self.cloud.endpoint.services[service].call(operation, params, Caller(ACCOUNT, region=REGION))

    def needed(self, one: Attempt) -> list[Access]:
        caller = Caller(ACCOUNT, region=one.region)
        return list(self.guard.needed(one.service, one.operation, one.params, caller))


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def specifications(tags: Mapping[str, str], *kinds: str) -> dict[str, Any]:
    found = [{"ResourceType": kind, "Tags": tag_list(tags)} for kind in kinds]
    return {"TagSpecifications": found} if tags else {}


class AccountBuilder:
    """Builds an account and the attempts on it."""

    def __init__(self) -> None:
        cloud = Cloud(
            CloudSetup(throttled=False, roles=(ROLE, ADMINISTRATOR)), clock=ManualClock(), ids=SeededIds(1)
        )
        self.account = Account(cloud)
        env = cloud.ec2.region
        own_subnets = [subnet for subnet in env.setup.subnets if subnet.account == ACCOUNT]
        self._subnet = own_subnets[0].id
        self._image = next(image.id for image in env.setup.images if image.architecture == "x86_64")
        self._numbers = iter(range(1, 1000))

    def attempt(
        self, service: str, operation: str, about: str, region: str = REGION, /, **params: Any
    ) -> None:
        self.account.attempts.append(Attempt(about, service, operation, params, region))

    def template(self, tags: Mapping[str, str], profile: str = "") -> str:
        data = {"ImageId": self._image, **({"IamInstanceProfile": {"Name": profile}} if profile else {})}
        made = self.account.create(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=f"template-{next(self._numbers)}",
            LaunchTemplateData=data,
            **specifications(tags, "launch-template"),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def instance(self, tags: Mapping[str, str]) -> str:
        made = self.account.create("ec2", "RunInstances", **self.run(tags))
        return str(made["Instances"][0]["InstanceId"])

    def profile(self, tags: Mapping[str, str], path: str = PATH) -> str:
        name = f"profile-{next(self._numbers)}"
        self.account.create(
            "iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path, Tags=tag_list(tags)
        )
        return name

    def run(self, tags: Mapping[str, str], template: str = "", **more: Any) -> dict[str, Any]:
        source = {"LaunchTemplate": {"LaunchTemplateId": template}} if template else {"ImageId": self._image}
        return {
            **source,
            "InstanceType": "m5.large",
            "SubnetId": self._subnet,
            "MinCount": 1,
            "MaxCount": 1,
            **specifications(tags, "instance", "volume", "network-interface"),
            **more,
        }

    def fleet(self, tags: Mapping[str, str], template: str) -> dict[str, Any]:
        override = {"InstanceType": "m5.large", "SubnetId": self._subnet}
        source = {"LaunchTemplateId": template, "Version": "$Latest"}
        return {
            "Type": "instant",
            "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": source, "Overrides": [override]}],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "on-demand",
            },
            **specifications(tags, "fleet", "instance", "volume"),
        }


def existing(b: AccountBuilder) -> None:
    """Instances and templates of other owners, and keys that the controller does not write."""
    for name, tags in NOT_OURS.items():
        instance, template = b.instance(tags), b.template(tags)
        node = tag_list({"Name": "node"})
        b.attempt("ec2", "TerminateInstances", name, InstanceIds=[instance])
        b.attempt("ec2", "RebootInstances", name, InstanceIds=[instance])
        b.attempt("ec2", "CreateTags", name, Resources=[instance], Tags=node)
        b.attempt("ec2", "DeleteLaunchTemplate", name, LaunchTemplateId=template)
        b.attempt("ec2", "RunInstances", f"template with {name}", **b.run(TAGS, template))
        b.attempt("ec2", "CreateFleet", f"template with {name}", **b.fleet(TAGS, template))
    own, foreign, template = b.instance(TAGS), b.instance({}), b.template(TAGS)
    b.attempt("ec2", "TerminateInstances", "own and foreign", InstanceIds=[own, foreign])
    for key in (*OWNED, *POOL, "cost-center"):
        b.attempt("ec2", "CreateTags", f"key {key}", Resources=[own], Tags=tag_list({key: "x", "Name": "n"}))
    b.attempt(
        "ec2",
        "CreateTags",
        "other cluster",
        Resources=[own],
        Tags=tag_list({**NAMED, "eks:eks-cluster-name": "x"}),
    )
    b.attempt("ec2", "CreateTags", "own template", Resources=[template], Tags=tag_list({"Name": "x"}))
    b.attempt("ec2", "CreateTags", "own tags on foreign", Resources=[foreign], Tags=tag_list(TAGS))
    b.attempt("ec2", "DeleteTags", "own", Resources=[own], Tags=[{"Key": "Name"}])
    b.attempt(
        "ec2", "CreateLaunchTemplateVersion", "own", LaunchTemplateId=template, LaunchTemplateData=SMALL
    )


def creating(b: AccountBuilder) -> None:
    """What is created without the tags of the controller."""
    template = b.template(TAGS)
    for name, tags in INCOMPLETE.items():
        created = {"LaunchTemplateName": "new", "LaunchTemplateData": SMALL}
        b.attempt("ec2", "CreateFleet", name, **b.fleet(tags, template))
        b.attempt("ec2", "RunInstances", name, **b.run(tags, template))
        if tags != UNNAMED:
            tagged = specifications(tags, "launch-template")
            b.attempt("ec2", "CreateLaunchTemplate", name, **created, **tagged)
    partly = specifications(TAGS, "instance", "network-interface")
    b.attempt("ec2", "RunInstances", "volume without tags", **b.run({}, template) | partly)
    b.attempt("ec2", "RunInstances", "no template, no tags", **b.run({}))


def profiles(b: AccountBuilder) -> None:
    role = {"RoleName": ROLE}
    for name, tags in NOT_OUR_PROFILES.items():
        foreign = {"InstanceProfileName": b.profile(tags)}
        b.attempt("iam", "DeleteInstanceProfile", name, **foreign)
        b.attempt("iam", "AddRoleToInstanceProfile", name, **foreign, **role)
        b.attempt("iam", "RemoveRoleFromInstanceProfile", name, **foreign, **role)
        b.attempt("iam", "TagInstanceProfile", f"own tags on {name}", **foreign, Tags=tag_list(TAGS))
        own = {"InstanceProfileName": b.profile(TAGS)}
        b.attempt("iam", "TagInstanceProfile", name, **own, Tags=tag_list(tags or {"Name": "x"}))
        new = {"InstanceProfileName": f"new-{len(tags)}", "Path": PATH}
        b.attempt("iam", "CreateInstanceProfile", name, **new, Tags=tag_list(tags))
    unnamed = {"InstanceProfileName": "new", "Path": PATH, "Tags": tag_list(OWNED | CLASS)}
    b.attempt("iam", "CreateInstanceProfile", "no name of the cluster", **unnamed)
    for path in ("/", f"/karpenter/{OTHER_REGION}/{CLUSTER}/uid/", f"/karpenter/{REGION}/other/uid/"):
        outside = {"InstanceProfileName": b.profile(TAGS, path)}
        b.attempt("iam", "DeleteInstanceProfile", path, **outside)
        b.attempt("iam", "AddRoleToInstanceProfile", path, **outside, **role)
        b.attempt("iam", "TagInstanceProfile", path, **outside, Tags=tag_list(TAGS))
        new = {"InstanceProfileName": "new", "Path": path}
        b.attempt("iam", "CreateInstanceProfile", path, **new, Tags=tag_list(TAGS))


def roles(b: AccountBuilder) -> None:
    own = b.profile(TAGS)
    b.attempt(
        "iam", "AddRoleToInstanceProfile", "admin role", InstanceProfileName=own, RoleName=ADMINISTRATOR
    )
    foreign = b.profile({}, "/")
    b.account.create("iam", "AddRoleToInstanceProfile", InstanceProfileName=foreign, RoleName=ADMINISTRATOR)
    template = b.template(TAGS, foreign)
    b.attempt("ec2", "CreateFleet", "profile with admin role", **b.fleet(TAGS, template))
    b.attempt("ec2", "RunInstances", "profile with admin role", **b.run(TAGS, template))
    b.attempt("iam", "GetRole", "node role", RoleName=ROLE)


def elsewhere(b: AccountBuilder) -> None:
    """Other regions, queues, clusters and parameters."""
    own, template = b.instance(TAGS), b.template(TAGS)
    b.attempt("ec2", "DescribeInstances", "other region", OTHER_REGION)
    b.attempt("ec2", "TerminateInstances", "other region", OTHER_REGION, InstanceIds=[own])
    b.attempt(
        "ec2", "CreateTags", "other region", OTHER_REGION, Resources=[own], Tags=tag_list({"Name": "x"})
    )
    b.attempt("ec2", "DeleteLaunchTemplate", "other region", OTHER_REGION, LaunchTemplateId=template)
    b.attempt("ec2", "CreateFleet", "other region", OTHER_REGION, **b.fleet(TAGS, template))
    created = {"LaunchTemplateName": "new", "LaunchTemplateData": SMALL}
    tagged = specifications(TAGS, "launch-template")
    b.attempt("ec2", "CreateLaunchTemplate", "other region", OTHER_REGION, **created, **tagged)
    b.attempt("eks", "DescribeCluster", "other cluster", name="other")
    b.attempt("eks", "DescribeCluster", "other region", OTHER_REGION, name=CLUSTER)
    b.attempt("eks", "ListClusters", "all")
    b.attempt("ssm", "GetParameter", "not an image", Name="/secret")
    b.attempt("sqs", "GetQueueUrl", "other queue", QueueName="other")
    for queue, region in (("other", REGION), (CLUSTER, OTHER_REGION)):
        url = f"https://sqs.{region}.amazonaws.com/{ACCOUNT}/{queue}"
        b.attempt("sqs", "ReceiveMessage", f"{queue} in {region}", region, QueueUrl=url)
        b.attempt("sqs", "DeleteMessage", f"{queue} in {region}", region, QueueUrl=url, ReceiptHandle="x")
    url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{CLUSTER}"
    b.attempt("sqs", "SendMessage", "own queue", QueueUrl=url, MessageBody="x")


def build_account() -> Account:
    builder = AccountBuilder()
    for build in (existing, creating, profiles, roles, elsewhere):
        build(builder)
    return builder.account


ACCOUNT_WITH_FOREIGN = build_account()


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, sim_aws.Clients]]:
    account = ACCOUNT_WITH_FOREIGN
    account.cloud.endpoint.guard = account.guard
    with (
        sim_aws.clients("before_send", account.cloud.endpoint) as here,
        sim_aws.clients("before_send", account.cloud.endpoint, OTHER_REGION) as there,
    ):
        yield {REGION: here, OTHER_REGION: there}


@pytest.mark.parametrize("one", ACCOUNT_WITH_FOREIGN.attempts, ids=str)
def test_call_is_denied(clients: dict[str, sim_aws.Clients], one: Attempt) -> None:
    client = clients[one.region][one.service]
    method = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one.operation).lower()
    writes = ACCOUNT_WITH_FOREIGN.cloud.ec2.region.writes
    with pytest.raises(ClientError) as error:
        getattr(client, method)(**one.params)
    codes = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied", "sqs": "AccessDenied"}
    assert error.value.response["Error"]["Code"] == codes.get(one.service, "AccessDeniedException")
    assert ACCOUNT_WITH_FOREIGN.cloud.ec2.region.writes == writes


def standalone_accesses() -> list[Access]:
    """Accesses that no call of the simulated AWS has alone."""
    here = {"aws:RequestedRegion": (REGION,)}
    role = f"arn:aws:iam::{ACCOUNT}:role/{ROLE}"
    passed = Access("iam:PassRole", role, {"iam:PassedToService": ("lambda.amazonaws.com",)})
    found = [passed]
    volume = f"arn:aws:ec2:{REGION}:{ACCOUNT}:volume/*"
    for tags in (*INCOMPLETE.values(), TAGS):
        context = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()} | here
        if tags == UNNAMED:
            continue  # denied by the action that creates
        if tags != TAGS:
            context |= {"ec2:CreateAction": ("RunInstances",)}
        found.append(Access("ec2:CreateTags", volume, context))
    elsewhere = f"arn:aws:ec2:{OTHER_REGION}:{ACCOUNT}:volume/*"
    complete = {f"aws:RequestTag/{key}": (value,) for key, value in TAGS.items()}
    found.append(Access("ec2:CreateTags", elsewhere, complete | {"ec2:CreateAction": ("RunInstances",)}))
    found.append(Access("iam:GetInstanceProfile", "arn:aws:iam::444455556666:instance-profile/x"))
    return found


def allows(granted: Policy, access: Access) -> bool:
    return granted.decide(access) is Decision.ALLOWED


@functools.cache
def denied() -> list[Access]:
    attempts = [ACCOUNT_WITH_FOREIGN.needed(one) for one in ACCOUNT_WITH_FOREIGN.attempts]
    return [
        access
        for access in itertools.chain(standalone_accesses(), *attempts)
        if not allows(PUBLISHED, access)
    ]


def wider() -> Iterator[tuple[str, dict[str, Any]]]:
    """The policy without one of its conditions, or with one of its resources open, each in turn."""
    document = iam_rights.document()
    for number, statement in enumerate(document["Statement"]):
        for operator, keys in statement.get("Condition", {}).items():
            for key in keys:
                changed = copy.deepcopy(document)
                del changed["Statement"][number]["Condition"][operator][key]
                yield f"{statement['Sid']} without {operator} {key}", changed
        if statement["Resource"] != "*":
            changed = copy.deepcopy(document)
            changed["Statement"][number]["Resource"] = "*"
            yield f"{statement['Sid']} on any resource", changed


PUBLISHED = iam_rights.published()
WIDER = dict(wider())


@pytest.mark.parametrize("name", WIDER)
def test_every_condition_and_resource_denies_something(name: str) -> None:
    wider_policy = policy.read(WIDER[name])
    assert any(allows(wider_policy, access) for access in denied())


def test_accesses_that_no_simulated_call_has_alone_are_denied() -> None:
    assert [access for access in standalone_accesses() if allows(PUBLISHED, access)] == []


def test_policy_is_not_too_long_for_a_managed_policy() -> None:
    name = "c" * 30
    text = iam_rights.filled(
        REGION="ap-southeast-2", CLUSTER_NAME=name, NODE_ROLE=f"KarpenterNodeRole-{name}", QUEUE=name
    )
    assert len("".join(text.split())) <= MANAGED_POLICY_MAX


def test_the_documented_command_fills_every_placeholder(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(sed .*?)\n```", page, re.DOTALL)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True, timeout=10)  # noqa: S603 - our own page
    values = dict(re.findall(r"'s\|(\w+)\|([^|]+)\|g'", command))
    assert values.keys() == iam_rights.VALUES.keys()
    filled = (tmp_path / "holdfast-policy.json").read_text(encoding="utf-8")
    assert filled == iam_rights.filled(**values)
    assert policy.read(json.loads(filled)).statements
