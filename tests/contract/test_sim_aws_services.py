"""The small simulated services, called with real botocore clients through each of the three fronts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

import sim_aws
from holdfast.data import ec2
from holdfast.sim.aws import ssm

AL2023 = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/{}/{}/recommended/image_id"


@pytest.fixture(params=sim_aws.FRONTS)
def aws(request: pytest.FixtureRequest) -> Iterator[sim_aws.Clients]:
    with sim_aws.clients(request.param, sim_aws.endpoint()) as clients:
        yield clients


def refusal(call: Any, **params: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    response = refused.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_sts_returns_the_account_of_the_key(aws: sim_aws.Clients) -> None:
    assert aws["sts"].get_caller_identity()["Account"] == "111122223333"


def test_ssm_has_the_images_of_eks_and_reports_missing_parameters(aws: sim_aws.Clients) -> None:
    found = aws["ssm"].get_parameter(Name=AL2023.format("x86_64", "standard"))["Parameter"]
    assert (found["Value"], found["DataType"]) == ("ami-al2023", "aws:ec2:image")
    missing = AL2023.format("arm64", "neuron")
    assert refusal(aws["ssm"].get_parameter, Name=missing) == ("ParameterNotFound", 400)
    several = aws["ssm"].get_parameters(Names=[AL2023.format("arm64", "nvidia"), missing])
    assert [parameter["Value"] for parameter in several["Parameters"]] == ["ami-al2023"]
    assert several["InvalidParameters"] == [missing]


@pytest.mark.fact("aws-8.1.1")
def test_image_parameters_have_the_paths_that_aws_publishes() -> None:
    paths = {path.path: path for path in ssm.ami_paths("1.32")}
    assert (
        paths["/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id"].variant == "gpu"
    )
    bottlerocket = paths["/aws/service/bottlerocket/aws-k8s-1.32-nvidia/arm64/latest/image_id"]
    assert (bottlerocket.family, bottlerocket.architecture) == ("Bottlerocket", "arm64")
    windows = "/aws/service/ami-windows-latest/Windows_Server-{}-English-Core-EKS_Optimized-{}/image_id"
    assert paths[windows.format(2022, "1.32")].family == "Windows2022"
    assert windows.format(2025, "1.32") not in paths
    newer = {path.path: path.family for path in ssm.ami_paths("1.35")}
    assert newer[windows.format(2025, "1.35")] == "Windows2025"
    assert "AL2" not in newer.values()


def test_operations_on_instance_profiles_have_the_error_codes_of_iam(aws: sim_aws.Clients) -> None:
    iam, named = aws["iam"], {"InstanceProfileName": "nodes"}
    assert refusal(iam.get_instance_profile, **named) == ("NoSuchEntity", 404)
    tags = [{"Key": "team", "Value": "<a&b>"}]
    made = iam.create_instance_profile(**named, Path="/karpenter/", Tags=tags)["InstanceProfile"]
    assert made["Arn"] == "arn:aws:iam::111122223333:instance-profile/karpenter/nodes"
    assert refusal(iam.create_instance_profile, **named) == ("EntityAlreadyExists", 409)
    assert refusal(iam.add_role_to_instance_profile, **named, RoleName="nobody") == ("NoSuchEntity", 404)
    iam.add_role_to_instance_profile(**named, RoleName="node-role")
    again = refusal(iam.add_role_to_instance_profile, **named, RoleName="node-role")
    assert again == ("LimitExceeded", 409)
    described = iam.get_instance_profile(**named)["InstanceProfile"]
    assert [role["RoleName"] for role in described["Roles"]] == ["node-role"]
    assert (described["Tags"], described["CreateDate"].timestamp()) == (tags, sim_aws.NOW_S)
    assert refusal(iam.delete_instance_profile, **named) == ("DeleteConflict", 409)
    iam.remove_role_from_instance_profile(**named, RoleName="node-role")
    missing = refusal(iam.remove_role_from_instance_profile, **named, RoleName="node-role")
    assert missing == ("NoSuchEntity", 404)
    iam.delete_instance_profile(**named)
    assert refusal(iam.get_instance_profile, **named) == ("NoSuchEntity", 404)


def test_tags_of_a_profile_are_added_and_removed(aws: sim_aws.Clients) -> None:
    iam, named = aws["iam"], {"InstanceProfileName": "nodes"}
    iam.create_instance_profile(**named)
    iam.tag_instance_profile(**named, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    iam.untag_instance_profile(**named, TagKeys=["a"])
    assert iam.list_instance_profile_tags(**named)["Tags"] == [{"Key": "b", "Value": "2"}]


def test_profiles_are_listed_by_path_in_pages(aws: sim_aws.Clients) -> None:
    for name in "abcde":
        aws["iam"].create_instance_profile(
            InstanceProfileName=name, Path="/k/", Tags=[{"Key": "a", "Value": "b"}]
        )
    aws["iam"].create_instance_profile(InstanceProfileName="other")
    pages = (
        aws["iam"]
        .get_paginator("list_instance_profiles")
        .paginate(PathPrefix="/k/", PaginationConfig={"PageSize": 2})
    )
    listed = [page["InstanceProfiles"] for page in pages]
    names = [[profile["InstanceProfileName"] for profile in profiles] for profiles in listed]
    assert not any("Tags" in profile for profiles in listed for profile in profiles)
    assert names == [["a", "b"], ["c", "d"], ["e"]]
    bad = refusal(aws["iam"].list_instance_profiles, Marker="elsewhere")
    assert bad == ("ValidationError", 400)


def test_eks_describes_its_cluster_and_no_other(aws: sim_aws.Clients) -> None:
    cluster = aws["eks"].describe_cluster(name="demo")["cluster"]
    assert (cluster["version"], cluster["status"]) == ("1.36", "ACTIVE")
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert refusal(aws["eks"].describe_cluster, name="a b") == ("ResourceNotFoundException", 404)


def products(aws: sim_aws.Clients, **attributes: str) -> list[dict[str, Any]]:
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in attributes.items()]
    pages = aws["pricing"].get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    found = []
    for page in pages:
        assert len(page["PriceList"]) <= 100
        found += [json.loads(text) for text in page["PriceList"]]
    return found


def hourly_usd(product: dict[str, Any]) -> str:
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert dimension["unit"] == "Hrs"
    return str(dimension["pricePerUnit"]["USD"])


def test_every_priced_type_is_in_the_price_list_once_a_tenancy(aws: sim_aws.Clients) -> None:
    region = ec2.region(sim_aws.REGION)
    priced = {i.name for i in region.types if i.name in region.on_demand_nano_usd}
    common = {"regionCode": sim_aws.REGION, "operatingSystem": "Linux", "capacitystatus": "Used"}
    shared = products(aws, **common, tenancy="Shared")
    assert sorted(p["product"]["attributes"]["instanceType"] for p in shared) == sorted(priced)
    metal = products(aws, **common, tenancy="Dedicated", productFamily="Compute Instance (bare metal)")
    names = {p["product"]["attributes"]["instanceType"] for p in metal}
    assert names == {i.name for i in region.types if i.bare_metal} & priced
    assert names


def test_prices_are_decimal_texts_of_the_shipped_prices(aws: sim_aws.Clients) -> None:
    (m5,) = products(aws, instanceType="m5.large")
    assert hourly_usd(m5) == "0.0960000000"
    assert refusal(aws["pricing"].get_products, ServiceCode="AmazonS3") == ("NotFoundException", 400)


def test_message_is_hidden_after_receiving_and_removed_by_deleting(aws: sim_aws.Clients) -> None:
    sqs, queue = aws["sqs"], {"QueueUrl": aws["sqs"].get_queue_url(QueueName=sim_aws.QUEUE)["QueueUrl"]}
    sent = [sqs.send_message(**queue, MessageBody=f"é{n}")["MessageId"] for n in range(3)]
    received = sqs.receive_message(**queue, MaxNumberOfMessages=10, AttributeNames=["SentTimestamp"])[
        "Messages"
    ]
    assert [message["MessageId"] for message in received] == sent
    assert received[0]["Attributes"] == {"SentTimestamp": str(sim_aws.NOW_S * 1000)}
    assert "Messages" not in sqs.receive_message(**queue)
    sqs.change_message_visibility(**queue, ReceiptHandle=received[0]["ReceiptHandle"], VisibilityTimeout=0)
    assert sqs.receive_message(**queue)["Messages"][0]["Body"] == "é0"
    sqs.delete_message(**queue, ReceiptHandle=received[0]["ReceiptHandle"])
    entries = [{"Id": str(n), "ReceiptHandle": received[n]["ReceiptHandle"]} for n in (1, 2)]
    batch = sqs.delete_message_batch(**queue, Entries=[*entries, {"Id": "bad", "ReceiptHandle": "bad"}])
    assert [done["Id"] for done in batch["Successful"]] == ["1", "2"]
    assert [(bad["Id"], bad["Code"]) for bad in batch["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]
    left = sqs.get_queue_attributes(**queue, AttributeNames=["All"])["Attributes"]
    assert (left["ApproximateNumberOfMessages"], left["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")


def test_missing_queue_has_the_error_code_of_sqs(aws: sim_aws.Clients) -> None:
    with pytest.raises(aws["sqs"].exceptions.QueueDoesNotExist) as refused:
        aws["sqs"].get_queue_url(QueueName="nowhere")
    assert refused.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    too_many = refusal(
        aws["sqs"].receive_message, QueueUrl=f"http://x/1/{sim_aws.QUEUE}", MaxNumberOfMessages=11
    )
    assert too_many == ("InvalidParameterValue", 400)


def test_rules_are_found_by_their_target(aws: sim_aws.Clients) -> None:
    eventbridge, rule = aws["events"], sim_aws.RULE
    assert eventbridge.list_rule_names_by_target(TargetArn=rule.target_arn)["RuleNames"] == [rule.name]
    assert eventbridge.list_rule_names_by_target(TargetArn="arn:aws:sqs:x:1:y")["RuleNames"] == []
    found = eventbridge.describe_rule(Name=rule.name)
    assert (json.loads(found["EventPattern"]), found["State"]) == ({"source": ["aws.ec2"]}, "ENABLED")
    assert refusal(eventbridge.describe_rule, Name="other")[0] == "ResourceNotFoundException"
