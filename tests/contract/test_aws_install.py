"""The CloudFormation template and the Terraform module grant the published policy, and send to the queue exactly the events
that Holdfast handles. `scripts/check_aws.py` deploys both."""

import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import pytest

import cloudformation
import generate_aws
import iam_rights
import interruption_events
from cloudformation import RefusedParameter
from ec2_region import HOUR_S, START_S, Region
from holdfast.cloud.aws.instances import interruption
from holdfast.sim.aws import policy
from holdfast.sim.aws.policy import Access, Decision
from holdfast.sim.ec2 import control
from interruption_events import matches

ROOT = Path(__file__).parents[2]
ACCOUNT = iam_rights.VALUES["ACCOUNT_ID"]
REGIONS = {"aws": "us-west-2", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
SUFFIXES = {"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}
IRSA = {"Identity": "IRSA", "OidcProvider": "oidc.eks.us-west-2.amazonaws.com/id/0A"}
EXISTING = {"CreateNodeRole": "false", "CreateQueue": "false"}
MANAGED_POLICY_MAX = 6144  # characters without white space
LONGEST = {
    "CLUSTER_NAME": "c" * 100,
    "NODE_ROLE": f"{'p' * 511}/{'r' * 64}",  # with the longest path
    "QUEUE": "q" * 80,
}
RULES = generate_aws.rules()


def template(partition: str = "aws", **parameters: str) -> cloudformation.Resolved:
    pseudo = {
        "AWS::Partition": partition,
        "AWS::Region": REGIONS[partition],
        "AWS::AccountId": ACCOUNT,
        "AWS::URLSuffix": SUFFIXES[partition],
    }
    return cloudformation.resolve(pseudo, **{"ClusterName": "demo", **parameters})


def of_type(resolved: cloudformation.Resolved, kind: str) -> dict[str, Any]:
    return {
        name: resource["Properties"]
        for name, resource in resolved.resources().items()
        if resource["Type"] == kind
    }


def terraform_policies(**values: str) -> list[str]:
    """The managed policies of the Terraform module as text."""
    generated = json.loads(generate_aws.TERRAFORM.read_text(encoding="utf-8"))
    names = {written: values[key] for key, written in generate_aws.IN_TERRAFORM.items()}
    documents = generated["locals"]["controller_policies"].values()
    return [generate_aws.fill(json.dumps(document), names) for document in documents]


def cloudformation_policies(**values: str) -> list[str]:
    resolved = template(
        values["PARTITION"],
        ClusterName=values["CLUSTER_NAME"],
        NodeRoleName=values["NODE_ROLE"],
        QueueName=values["QUEUE"],
    )
    found = of_type(resolved, "AWS::IAM::ManagedPolicy").values()
    assert all(one["Roles"] == ["HoldfastControllerRole"] for one in found)
    return [one["PolicyDocument"] for one in found]


POLICIES = {"CloudFormation": cloudformation_policies, "Terraform": terraform_policies}


# --- The policy -------------------------------------------------------------------------------------


def test_generated_files_are_current() -> None:
    present = generate_aws.CLOUDFORMATION.read_text(encoding="utf-8")
    assert present == generate_aws.cloudformation(present)
    assert generate_aws.TERRAFORM.read_text(encoding="utf-8") == generate_aws.terraform()


@pytest.mark.parametrize("partition", REGIONS)
@pytest.mark.parametrize("tool", POLICIES)
def test_controller_role_has_the_statements_of_the_published_policy(tool: str, partition: str) -> None:
    values = iam_rights.VALUES | {"PARTITION": partition, "REGION": REGIONS[partition]}
    statements = [one for text in POLICIES[tool](**values) for one in json.loads(text)["Statement"]]
    wanted = iam_rights.document(**values)["Statement"]
    assert sorted(statements, key=lambda one: str(one["Sid"])) == sorted(
        wanted, key=lambda one: str(one["Sid"])
    )


@pytest.mark.parametrize("tool", POLICIES)
def test_managed_policies_are_short_enough_for_the_longest_names(tool: str) -> None:
    session = botocore.session.get_session()
    for partition in REGIONS:
        region = max(session.get_available_regions("ec2", partition), key=len)
        values = iam_rights.VALUES | LONGEST | {"PARTITION": partition, "REGION": region}
        for text in POLICIES[tool](**values):
            assert "c" * 100 in text
            assert len("".join(text.split())) <= MANAGED_POLICY_MAX


def test_new_statement_without_a_managed_policy_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document = json.loads(generate_aws.POLICY.read_text(encoding="utf-8"))
    document["Statement"].append(document["Statement"][0] | {"Sid": "New"})
    source = tmp_path / "iam-policy.json"
    source.write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr(generate_aws, "POLICY", source)
    with pytest.raises(generate_aws.WrongSource, match="New"):
        generate_aws.policies()


# --- Events -----------------------------------------------------------------------------------------


def rules_of(event: dict[str, Any]) -> list[str]:
    return [name for name, rule in RULES.items() if matches(rule["pattern"], event)]


@pytest.mark.parametrize(
    "event", interruption_events.handled(), ids=lambda one: f"{one['detail-type']} {one['detail']}"
)
def test_handled_event_matches_one_rule(event: dict[str, Any]) -> None:
    assert len(rules_of(event)) == 1


@pytest.mark.parametrize(
    "event", interruption_events.ignored(), ids=lambda one: f"{one['detail-type']} {one['detail']}"
)
def test_ignored_event_matches_no_rule(event: dict[str, Any]) -> None:
    assert rules_of(event) == []


def test_rules_have_only_events_that_are_handled() -> None:
    sent = {
        (source, detail_type)
        for rule in RULES.values()
        for source in rule["pattern"]["source"]
        for detail_type in rule["pattern"]["detail-type"]
    }
    assert sent == set(interruption._READERS)


def test_events_of_the_simulated_ec2_match_one_rule_if_they_are_handled() -> None:
    region = Region()
    (spot,) = region.launch()
    block = region.reserve("p5.48xlarge", kind="capacity-block", criteria="targeted", end_s=START_S + HOUR_S)
    control.interrupt_spot(region.state, spot.id)
    control.recommend_rebalance(region.state, spot.id)
    control.schedule_event(region.state, spot.id, "instance-retirement", START_S + 2 * HOUR_S)
    region.wait(3 * HOUR_S)
    matching = {name for event in region.events for name in rules_of(event)}
    assert len(matching) >= 6, f"{block.id}, {spot.id}: {matching}"
    for event in region.events:
        assert len(rules_of(event)) == interruption_events.is_handled(event), event


# --- Resources --------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", REGIONS)
def test_irsa_trust_is_limited_to_the_service_account(partition: str) -> None:
    role = template(partition, **IRSA).resources()["HoldfastControllerRole"]["Properties"]
    (statement,) = json.loads(role["AssumeRolePolicyDocument"])["Statement"]
    provider = IRSA["OidcProvider"]
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:{partition}:iam::{ACCOUNT}:oidc-provider/{provider}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {
                f"{provider}:aud": "sts.amazonaws.com",
                f"{provider}:sub": "system:serviceaccount:kube-system:holdfast",
            }
        },
    }


@pytest.mark.parametrize("partition", REGIONS)
def test_pod_identity_trust_is_limited_to_the_service_account_of_the_cluster(partition: str) -> None:
    role = template(partition).resources()["HoldfastControllerRole"]["Properties"]
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-arn": f"arn:{partition}:eks:{REGIONS[partition]}:{ACCOUNT}:cluster/demo",
        "aws:RequestTag/kubernetes-namespace": "kube-system",
        "aws:RequestTag/kubernetes-service-account": "holdfast",
    }


@pytest.mark.parametrize(
    ("parameters", "count"), [({}, 1), ({"CreatePodIdentityAssociation": "false"}, 0), (IRSA, 0)]
)
def test_association_is_created_for_pod_identity_alone(parameters: dict[str, str], count: int) -> None:
    found = of_type(template(**parameters), "AWS::EKS::PodIdentityAssociation")
    assert len(found) == count


@pytest.mark.parametrize("partition", REGIONS)
def test_node_role_has_karpenters_name_and_policies(partition: str) -> None:
    node = template(partition).resources()["KarpenterNodeRole"]["Properties"]
    assert node["RoleName"] == "KarpenterNodeRole-demo"
    (statement,) = node["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": f"ec2.{SUFFIXES[partition]}"}
    assert sorted(node["ManagedPolicyArns"]) == [
        f"arn:{partition}:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
        f"arn:{partition}:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        f"arn:{partition}:iam::aws:policy/AmazonEKS_CNI_Policy",
        f"arn:{partition}:iam::aws:policy/AmazonSSMManagedInstanceCore",
    ]


def test_ec2_can_be_given_the_node_role_in_every_partition() -> None:
    (pass_role,) = [one for one in iam_rights.document()["Statement"] if one["Action"] == "iam:PassRole"]
    allowed = pass_role["Condition"]["StringEquals"]["iam:PassedToService"]
    assert {f"ec2.{suffix}" for suffix in SUFFIXES.values()} == set(allowed)


def test_queue_is_encrypted_and_keeps_messages_for_five_minutes() -> None:
    assert template().resources()["KarpenterInterruptionQueue"]["Properties"] == {
        "QueueName": "demo",
        "MessageRetentionPeriod": 300,
        "SqsManagedSseEnabled": True,
    }


def test_only_the_rules_of_the_stack_can_send_and_only_over_tls() -> None:
    resource = template().resources()["KarpenterInterruptionQueuePolicy"]["Properties"]
    arns = f"arn:aws:events:us-west-2:{ACCOUNT}:rule/"
    text = json.dumps(resource["PolicyDocument"])
    document = json.loads(re.sub(r'"(\w+)\.Arn"', rf'"{arns}\1"', text))
    queue = f"{arns}KarpenterInterruptionQueue"
    principals = {one["Sid"]: one.pop("Principal") for one in document["Statement"]}
    assert principals == {
        "SendFromRules": {"Service": "events.amazonaws.com"},
        "SendFromSqsOfThisAccount": {"Service": "sqs.amazonaws.com"},
        "DenyHTTP": "*",
    }
    granted = policy.read(document)

    def decide(action: str, tls: str = "true", **context: str) -> Decision:
        keys = {f"aws:{key}": (value,) for key, value in context.items()}
        return granted.decide(Access(action, queue, {"aws:SecureTransport": (tls,), **keys}))

    for name in RULES:
        assert decide("sqs:SendMessage", SourceArn=arns + name) is Decision.ALLOWED
        assert decide("sqs:SendMessage", "false", SourceArn=arns + name) is Decision.EXPLICITLY_DENIED
        assert decide("sqs:ReceiveMessage", SourceArn=arns + name) is Decision.IMPLICITLY_DENIED
    assert decide("sqs:ReceiveMessage", "false") is Decision.EXPLICITLY_DENIED
    assert decide("sqs:SendMessage", SourceArn=f"{arns}other") is Decision.IMPLICITLY_DENIED
    assert decide("sqs:SendMessage", SourceAccount=ACCOUNT) is Decision.ALLOWED
    assert decide("sqs:SendMessage", SourceAccount="444455556666") is Decision.IMPLICITLY_DENIED
    assert decide("sqs:SendMessage") is Decision.IMPLICITLY_DENIED


def test_every_rule_has_the_queue_as_its_target() -> None:
    found = of_type(template(), "AWS::Events::Rule")
    assert {name: rule["EventPattern"] for name, rule in found.items()} == {
        name: rule["pattern"] for name, rule in RULES.items()
    }
    for rule in found.values():
        assert [target["Arn"] for target in rule["Targets"]] == ["KarpenterInterruptionQueue.Arn"]


@pytest.mark.parametrize("partition", REGIONS)
def test_karpenters_queue_and_node_role_are_reused_by_their_names(partition: str) -> None:
    resolved = template(partition, **EXISTING)
    kinds = [resource["Type"] for resource in resolved.resources().values()]
    assert "AWS::SQS::Queue" not in kinds
    assert "AWS::SQS::QueuePolicy" not in kinds
    assert kinds.count("AWS::IAM::Role") == 1
    rules = of_type(resolved, "AWS::Events::Rule")
    assert rules.keys() == {name for name, rule in RULES.items() if not rule["inKarpenter"]}
    arn = f"arn:{partition}:sqs:{REGIONS[partition]}:{ACCOUNT}:demo"
    assert {target["Arn"] for rule in rules.values() for target in rule["Targets"]} == {arn}
    assert {name: resolved.outputs()[name] for name in ("NodeRole", "InterruptionQueue")} == {
        "NodeRole": "KarpenterNodeRole-demo",
        "InterruptionQueue": "demo",
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Identity": "IRSA"}, "IRSA needs OidcProvider"),
        (IRSA | {"OidcProvider": "https://oidc.example"}, "without https://"),
        ({"ClusterName": "a/b"}, "the name of an EKS cluster"),
        ({"NodeRoleName": "arn:aws:iam::111122223333:role/x"}, "not its ARN"),
        ({"QueueName": "https://sqs.us-west-2.amazonaws.com/111122223333/x"}, "not its ARN or URL"),
        ({"CreateQueue": "no"}, "CreateQueue"),
    ],
)
def test_wrong_parameter_is_refused(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(RefusedParameter, match=message):
        template(**parameters)


# --- Documentation ----------------------------------------------------------------------------------


def test_page_lists_every_parameter_with_its_default() -> None:
    page = (ROOT / "docs" / "install-aws.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*?) \|", page, re.MULTILINE)
    declared = {
        name: f"`{parameter['Default']}`" if parameter.get("Default") else ""
        for name, parameter in cloudformation.template()["Parameters"].items()
    }
    assert {name: default for name, _, default in rows} == declared
    variables = re.findall(
        r'^variable "(\w+)"',
        (ROOT / "deploy/terraform/variables.tf").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [variable for _, variable, _ in rows] == variables


def test_page_lists_every_rule() -> None:
    page = (ROOT / "docs" / "install-aws.md").read_text(encoding="utf-8")
    assert [name for name in RULES if f"`{name}`" not in page] == []
