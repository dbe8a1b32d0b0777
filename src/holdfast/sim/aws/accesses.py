"""The IAM accesses of calls to services other than EC2: actions, ARNs and condition keys, by the AWS Service
Authorization Reference.

Called by `sim.guard`; `sim.ec2.accesses` has those of EC2. An object that does not exist yet has the ARN that IAM
derives from the request, and no tags.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.sim.aws.iam import Iam
from holdfast.sim.aws.policy import Access, Context
from holdfast.sim.aws.service import Caller

PARTITION: Final = "aws"
ANY: Final = "*"  # the resource of actions without resource types
_GLOBAL: Final = ("iam", "sts")  # IAM evaluates these calls as requests to us-east-1
_EC2: Final = "ec2.amazonaws.com"
_PUBLIC: Final = "/aws/"  # parameters that AWS publishes belong to no account
_QUEUE_CALLS: Final = ("QueueName", "QueueUrl")


def needed(
    service: str, operation: str, params: Mapping[str, Any], caller: Caller, iam: Iam
) -> Iterable[Access]:
    """The accesses of a call to any service except EC2."""
    match service:
        case "iam":
            return _iam(operation, params, caller, iam)
        case "sts":
            return ()  # GetCallerIdentity needs no permission
        case "sqs":
            name = next((params[key].rpartition("/")[2] for key in _QUEUE_CALLS if key in params), ANY)
            resources = [arn("sqs", caller, name)]
        case "ssm":
            resources = [_parameter(name, caller) for name in params.get("Names", [params.get("Name", "")])]
        case "eks" if "name" in params:
            resources = [arn("eks", caller, f"cluster/{params['name']}")]
        case _:
            resources = [ANY]
    return [Access(f"{service}:{operation}", one, requested_region(service, caller)) for one in resources]


def arn(service: str, caller: Caller, resource: str, *, account: str | None = None) -> str:
    region = "" if service in _GLOBAL else caller.region
    owner = caller.account_id if account is None else account
    return f"arn:{PARTITION}:{service}:{region}:{owner}:{resource}"


def requested_region(service: str, caller: Caller) -> dict[str, tuple[str, ...]]:
    return {"aws:RequestedRegion": ("us-east-1" if service in _GLOBAL else caller.region,)}


def request_tags(tags: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    return found | ({"aws:TagKeys": tuple(tags)} if tags else {})


def resource_tags(tags: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {f"aws:ResourceTag/{key}": (value,) for key, value in tags.items()}


def pass_role(role: str, caller: Caller) -> Access:
    """The role that an instance profile passes to instances."""
    context = {"iam:PassedToService": (_EC2,)} | requested_region("iam", caller)
    return Access("iam:PassRole", arn("iam", caller, f"role/{role}"), context)


def _parameter(name: str, caller: Caller) -> str:
    account = "" if name.startswith(_PUBLIC) else None
    return arn("ssm", caller, f"parameter/{name.lstrip('/')}", account=account)


def _iam(operation: str, params: Mapping[str, Any], caller: Caller, iam: Iam) -> Iterator[Access]:
    action, here = f"iam:{operation}", requested_region("iam", caller)
    name, requested_tags = params.get("InstanceProfileName"), _tags(params)
    if name is None:
        role = params.get("RoleName")
        yield Access(action, arn("iam", caller, f"role/{role}") if role else ANY, here)
        return
    path, tags = iam.profile(name) or (params.get("Path", "/"), {})
    resource = arn("iam", caller, f"instance-profile{path}{name}")
    context: Context = here | resource_tags(tags) | request_tags(requested_tags)
    yield Access(action, resource, context)
    if operation == "CreateInstanceProfile" and requested_tags:
        # Karpenter's policy requires its tags on the resource here and allows the creation of profiles, so IAM uses the
        # tags of the request as those of the resource.
        yield Access(
            "iam:TagInstanceProfile",
            resource,
            here | resource_tags(requested_tags) | request_tags(requested_tags),
        )
    if operation == "AddRoleToInstanceProfile":
        yield pass_role(params["RoleName"], caller)


def _tags(params: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in params.get("Tags", ())}
