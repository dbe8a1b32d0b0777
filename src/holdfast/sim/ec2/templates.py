"""Launch templates: create, version, describe, delete, and find the one of a launch.

Called by `service` for the calls and by Fleet and RunInstances to find one. The NotFound codes are exactly EC2's,
because Karpenter creates a template again after one of them.
"""

import re
from dataclasses import replace
from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import filters, listings, pages, specs, times
from holdfast.sim.ec2.entities import Template
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, clash, invalid, tag_list

_NAME: Final = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
_FILTERS: Final = {"create-time": "CreateTime", "launch-template-name": "LaunchTemplateName"}
_VERSION_FILTERS: Final = {
    "create-time": "CreateTime",
    "ebs-optimized": "LaunchTemplateData.EbsOptimized",
    "iam-instance-profile": "LaunchTemplateData.IamInstanceProfile.Arn",
    "image-id": "LaunchTemplateData.ImageId",
    "instance-type": "LaunchTemplateData.InstanceType",
    "is-default-version": "DefaultVersion",
    "http-endpoint": "LaunchTemplateData.MetadataOptions.HttpEndpoint",
    "http-tokens": "LaunchTemplateData.MetadataOptions.HttpTokens",
}


def create(region: RegionState, request: Request) -> dict[str, Any]:
    name, data = request.need("LaunchTemplateName"), request.need("LaunchTemplateData")
    if not _NAME.fullmatch(name):
        raise ApiError("InvalidLaunchTemplateName.MalformedException", f"The name '{name}' is not valid")
    if _by_name(region, request.account, name):
        raise ApiError(
            "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."
        )
    specs.check_data(data)
    request.proceed()
    template = region.templates.put(
        Template(
            id=region.new_id("lt"),
            name=name,
            account=request.account,
            created_s=region.now_s,
            created_by=f"arn:aws:iam::{request.account}:root",
            versions=(dict(data),),
            tags=request.tags("launch-template"),
        )
    )
    return {"LaunchTemplate": _describe(template)}


def create_version(region: RegionState, request: Request) -> dict[str, Any]:
    template = find(region, request.account, dict(request.params))
    data = dict(request.need("LaunchTemplateData"))
    if source := request.get("SourceVersion"):
        data = template.versions[number(template, source) - 1] | data
    specs.check_data(data)
    request.proceed()
    template = region.templates.put(replace(template, versions=(*template.versions, data)))
    return {"LaunchTemplateVersion": _describe_version(template, len(template.versions))}


def delete(region: RegionState, request: Request) -> dict[str, Any]:
    template = find(region, request.account, dict(request.params))
    request.proceed()
    region.templates.drop(template.id)
    return {"LaunchTemplate": _describe(template)}


def describe(region: RegionState, request: Request) -> dict[str, Any]:
    ids, names = request.get("LaunchTemplateIds", ()), request.get("LaunchTemplateNames", ())
    mine = [each for each in region.templates if each.account == request.account]
    for each in ids:
        if each not in {template.id for template in mine}:
            raise _no_id(each)
    for each in names:
        if each not in {template.name for template in mine}:
            raise _no_name(each)
    selected = [t for t in mine if (not ids or t.id in ids) and (not names or t.name in names)]
    found = filters.keep(map(_describe, selected), request, _FILTERS)
    return pages.page(
        found,
        request,
        "LaunchTemplates",
        lambda t: str(t["LaunchTemplateId"]),
        sizes=listings.Sizes(least=1, most=200, usual=200),
    )


def describe_versions(region: RegionState, request: Request) -> dict[str, Any]:
    template = find(region, request.account, dict(request.params))
    requested = request.get("Versions") or range(1, len(template.versions) + 1)
    numbers = sorted({number(template, str(version)) for version in requested})
    found = [_describe_version(template, n) for n in numbers]
    found = filters.keep(found, request, _VERSION_FILTERS, tags="")
    return pages.page(
        found,
        request,
        "LaunchTemplateVersions",
        lambda v: f"{v['VersionNumber']:09}",
        sizes=listings.Sizes(least=1, most=200),
    )


def find(region: RegionState, account: str, given: dict[str, Any]) -> Template:
    """The template with an id or a name; the request must have exactly one of the two."""
    by_id, by_name = given.get("LaunchTemplateId"), given.get("LaunchTemplateName")
    if bool(by_id) == bool(by_name):
        raise (
            clash("Specify either the launch template id or its name")
            if by_id
            else ApiError(
                "MissingParameter",
                "The request must contain the parameter LaunchTemplateId or LaunchTemplateName",
            )
        )
    if by_id:
        template = region.templates.get(by_id)
        if template is None or template.account != account:
            raise _no_id(by_id)
        return template
    named = _by_name(region, account, str(by_name))
    if named is None:
        raise _no_name(str(by_name))
    return named


def number(template: Template, version: str) -> int:
    """`$Latest`, `$Default` or a number; the default version if none is set."""
    match version:
        case "$Latest":
            return len(template.versions)
        case "$Default" | "":
            return template.default
    if not version.isdecimal():
        raise invalid(f"The launch template version '{version}' is not valid")
    if not 1 <= int(version) <= len(template.versions):
        raise ApiError(
            "InvalidLaunchTemplateId.VersionNotFound",
            f"Could not find version {version} of launch template {template.id}",
        )
    return int(version)


def _by_name(region: RegionState, account: str, name: str) -> Template | None:
    return next((t for t in region.templates if t.name == name and t.account == account), None)


def _no_id(template_id: str) -> ApiError:
    return ApiError(
        "InvalidLaunchTemplateId.NotFound",
        f"The specified launch template, with template ID {template_id}, does not exist.",
    )


def _no_name(name: str) -> ApiError:
    return ApiError(
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def _describe(template: Template) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": times.when(template.created_s),
        "CreatedBy": template.created_by,
        "DefaultVersionNumber": template.default,
        "LatestVersionNumber": len(template.versions),
        "Tags": tag_list(template.tags),
    }


def _describe_version(template: Template, version: int) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": version,
        "CreateTime": times.when(template.created_s),
        "CreatedBy": template.created_by,
        "DefaultVersion": version == template.default,
        "LaunchTemplateData": template.versions[version - 1],
    }
