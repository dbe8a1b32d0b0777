"""The policy evaluator decides as the IAM User Guide describes it, example by example."""

from typing import Any

import pytest

from holdfast.sim.aws import policy
from holdfast.sim.aws.policy import Access, Decision, InvalidPolicy

ALLOWED, DENIED = Decision.ALLOWED, Decision.IMPLICITLY_DENIED
BUCKET = "arn:aws:s3:::bucket"
INSTANCE = "arn:aws:ec2:us-west-2:111122223333:instance/i-1"


def decide(access: Access, *statements: dict[str, Any]) -> Decision:
    return policy.read({"Version": "2012-10-17", "Statement": list(statements)}).decide(access)


def allow(action: Any = "*", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource} | more


def deny(action: Any = "*", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return allow(action, resource, **more) | {"Effect": "Deny"}


def applies(condition: dict[str, Any], **context: tuple[str, ...]) -> bool:
    """Whether a statement with this condition applies. Keys are written with `_` for `:`."""
    keys = {key.replace("_", ":"): values for key, values in context.items()}
    access = Access("ec2:TerminateInstances", INSTANCE, keys)
    return decide(access, allow(Condition=condition)) is ALLOWED


def test_without_an_allow_access_is_denied() -> None:
    assert decide(Access("s3:GetObject", BUCKET)) is DENIED
    assert decide(Access("s3:GetObject", BUCKET), allow("s3:PutObject")) is DENIED


def test_an_explicit_deny_wins_over_every_allow() -> None:
    access = Access("s3:GetObject", f"{BUCKET}/secret")
    for statements in ([allow(), deny("s3:*")], [deny("s3:*"), allow()]):
        assert decide(access, *statements) is Decision.EXPLICITLY_DENIED
    assert decide(access, allow(), deny("s3:*", f"{BUCKET}/other")) is ALLOWED


@pytest.mark.parametrize(
    ("pattern", "action", "matches"),
    [
        ("ec2:RunInstances", "ec2:RunInstances", True),
        ("EC2:runinstances", "ec2:RunInstances", True),
        ("ec2:Describe*", "ec2:DescribeInstances", True),
        ("ec2:Describe*", "ec2:RunInstances", False),
        ("iam:*AccessKey*", "iam:UpdateAccessKey", True),
        ("ec2:RunInstance?", "ec2:RunInstances", True),
        ("ec2:RunInstance", "ec2:RunInstances", False),
        ("ec2.Run*", "ec2:RunInstances", False),
    ],
)
def test_actions_match_case_insensitively_with_wildcards(pattern: str, action: str, *, matches: bool) -> None:
    assert (decide(Access(action, INSTANCE), allow(["s3:*", pattern])) is ALLOWED) is matches


@pytest.mark.parametrize(
    ("pattern", "resource", "matches"),
    [
        ("*", INSTANCE, True),
        (INSTANCE, INSTANCE, True),
        (INSTANCE.upper(), INSTANCE, False),
        ("arn:aws:ec2:*:*:instance/*", INSTANCE, True),
        ("arn:aws:ec2:us-west-2:*:volume/*", INSTANCE, False),
        ("arn:aws:ec2:us-east-1:*:instance/*", INSTANCE, False),
        ("arn:aws:ec2:us-west-2::image/*", "arn:aws:ec2:us-west-2::image/ami-1", True),
        ("arn:aws:ec2:us-west-2::image/*", "arn:aws:ec2:us-west-2:111122223333:image/ami-1", False),
        ("arn:aws:s3:::bucket/a*z", f"{BUCKET}/a/b/z", True),
        ("arn:aws:sqs:us-west-2:1:queue", "arn:aws:sqs:us-west-2:1:queue-2", False),
        ("arn:aws:ec2:*", INSTANCE, True),  # at the end of a part an asterisk also matches past the colon
        ("arn:aws:ec2:us*2:111122223333:instance/*", INSTANCE, True),
        ("arn:aws:ec2:us*3:instance/*", INSTANCE, False),  # inside a part an asterisk does not
    ],
)
def test_resources_match_case_sensitively_with_wildcards(
    pattern: str, resource: str, *, matches: bool
) -> None:
    assert (decide(Access("a:B", resource), allow(resource=["arn:x", pattern])) is ALLOWED) is matches


def test_notaction_and_notresource_match_everything_else() -> None:
    statement = {"Effect": "Allow", "NotAction": "iam:*", "NotResource": f"{BUCKET}*"}
    assert decide(Access("ec2:RunInstances", INSTANCE), statement) is ALLOWED
    assert decide(Access("iam:PassRole", INSTANCE), statement) is DENIED
    assert decide(Access("s3:GetObject", f"{BUCKET}/x"), statement) is DENIED


def test_all_conditions_must_hold_and_one_value_of_each_suffices() -> None:
    both = {"StringEquals": {"aws:a": ["1", "2"], "aws:b": "3"}}
    assert applies(both, aws_a=("2",), aws_b=("3",))
    assert not applies(both, aws_a=("2",), aws_b=("4",))
    assert not applies(both, aws_a=("2",))
    assert not applies({"StringEquals": {"aws:a": "1"}, "StringLike": {"aws:a": "2*"}}, aws_a=("1",))


def test_condition_keys_are_case_insensitive_and_values_are_not() -> None:
    assert applies({"StringEquals": {"AWS:RequestedRegion": "x"}}, aws_requestedregion=("x",))
    assert not applies({"StringEquals": {"aws:a": "Owned"}}, aws_a=("owned",))
    assert applies({"StringEqualsIgnoreCase": {"aws:a": "Owned"}}, aws_a=("owned",))


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "holds"),
    [
        ("StringLike", "*", "", True),  # Karpenter tags with an empty NodePool
        ("StringLike", "a?c*", "abcde", True),
        ("StringLike", "a?c", "ac", False),
        ("StringEquals", "*", "abc", False),
        ("StringNotEquals", "a", "b", True),
        ("StringNotEquals", ["a", "b"], "b", False),
        ("StringNotLike", "a*", "abc", False),
        ("StringNotEqualsIgnoreCase", "A", "a", False),
        ("Bool", "true", "True", True),
        ("Bool", False, "true", False),
        ("ArnLike", "arn:aws:ec2:*:*:launch-template/lt-*", "arn:aws:ec2:r:1:launch-template/lt-1", True),
        ("ArnEquals", "arn:aws:sns:*:1:topic", "arn:aws:sns:r:1:topic", True),
        ("ArnLike", "arn:aws:ec2:*:lt-1", "arn:aws:ec2:r:1:lt-1", False),  # each part is compared separately
        ("ArnNotLike", "arn:aws:ec2:*:*:*", "arn:aws:ec2:r:1:x", False),
    ],
)
def test_condition_operators(operator: str, wanted: Any, value: str, *, holds: bool) -> None:
    assert applies({operator: {"aws:a": wanted}}, aws_a=(value,)) is holds


@pytest.mark.parametrize(
    ("operator", "holds"),
    [
        ("StringEquals", False),
        ("StringEqualsIfExists", True),
        ("StringNotEquals", True),
        ("StringLikeIfExists", True),
        ("ArnLike", False),
        ("BoolIfExists", True),
        ("ForAllValues:StringEquals", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAnyValue:StringNotEquals", False),
    ],
)
def test_condition_operators_without_the_key(operator: str, *, holds: bool) -> None:
    assert applies({operator: {"aws:a": "x"}}) is holds


def test_ifexists_compares_a_key_that_is_present() -> None:
    assert not applies({"StringEqualsIfExists": {"aws:a": "x"}}, aws_a=("y",))


def test_null_checks_whether_a_key_is_present() -> None:
    assert applies({"Null": {"aws:a": "true"}})
    assert not applies({"Null": {"aws:a": "true"}}, aws_a=("x",))
    assert applies({"Null": {"aws:a": False}}, aws_a=("x",))
    assert not applies({"Null": {"aws:a": "false"}})


@pytest.mark.parametrize(
    ("keys", "all_match", "any_match"),
    [
        (("environment", "preserve"), True, True),
        (("environment",), True, True),
        (("environment", "owner"), False, True),
        (("owner",), False, False),
        (("Environment",), False, False),
    ],
)
def test_set_operators_compare_every_value(
    keys: tuple[str, ...], *, all_match: bool, any_match: bool
) -> None:
    wanted = {"aws:TagKeys": ["environment", "preserve"]}
    assert applies({"ForAllValues:StringEquals": wanted}, aws_TagKeys=keys) is all_match
    assert applies({"ForAnyValue:StringEquals": wanted}, aws_TagKeys=keys) is any_match


def test_forallvalues_of_a_negated_operator_rules_out_every_value() -> None:
    without = {"ForAllValues:StringNotEquals": {"aws:TagKeys": ["secret", "key"]}}
    assert applies(without, aws_TagKeys=("a", "b"))
    assert not applies(without, aws_TagKeys=("a", "secret"))


@pytest.mark.parametrize(
    "document",
    [
        {"Statement": []},
        {"Version": "2012-10-17", "Statement": [allow(Principal="*")]},
        {"Version": "2012-10-17", "Statement": [allow() | {"Effect": "allow"}]},
        {"Version": "2012-10-17", "Statement": [allow(NotAction="x")]},
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*"}]},
        {"Version": "2012-10-17", "Statement": [allow([])]},
        {"Version": "2012-10-17", "Statement": [allow([7])]},
        {"Version": "2012-10-17", "Statement": [allow(resource="arn:aws:s3:::${aws:username}")]},
        {"Version": "2012-10-17", "Statement": [allow(Condition={"DateLessThan": {"aws:a": "x"}})]},
        {
            "Version": "2012-10-17",
            "Statement": [allow(Condition={"ForSomeValues:StringLike": {"aws:a": "x"}})],
        },
    ],
)
def test_a_policy_that_cannot_be_evaluated_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy):
        policy.read(document)


def test_a_single_statement_needs_no_list() -> None:
    read = policy.read({"Version": "2012-10-17", "Statement": allow()})
    assert read.decide(Access("a:B", "*")) is ALLOWED
