"""Creates launch templates in EC2, creates deleted ones again, and deletes unused ones.

A name is derived from the content of a template, so an existing template of that name is the right one and is not read
before. Only templates with Holdfast's tag are deleted, and only if no instance was launched from them and no launch
used them for an hour. The templates of a class in use stay, because its dry runs are more frequent than that.
"""

import asyncio
import base64
import contextlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import structlog

from holdfast import errors, ports
from holdfast.api import aws as tags
from holdfast.cloud.aws.client import answers, calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.launch import userdata
from holdfast.cloud.aws.launch.templates import Template
from holdfast.cloud.aws.nodeclass.cluster import OWNED, Cluster

USER_DATA_BYTES: Final = "karpenter_ec2nodeclasses_userdata_bytes"
_WARN_BYTES: Final = userdata.SIZE_MAX_BYTES * 9 // 10
UNUSED_S: Final = 3600  # more than `probes.ALLOWED_TTL_S`

_PAGE: Final = 200


class _Listed(NamedTuple):
    """A launch template that EC2 lists."""

    name: str
    id: str
    created_s: int


class TemplateStore:
    def __init__(self, aws: Calls, cluster: Cluster, ids: ports.Ids) -> None:
        self._aws = aws
        self._ids = ids
        self._cluster = cluster
        self._known: set[str] = set()
        self._used_s: dict[str, int] = {}  # when a launch last used it, by name
        self._locks: dict[str, asyncio.Lock] = {}  # by name, for one creation or deletion at a time

    async def ensure(self, templates: Iterable[Template]) -> None:
        """Returns when EC2 has all templates. Concurrent callers create each one once."""
        wanted = {template.name: template for template in templates}
        self._used_s |= dict.fromkeys(wanted, self._aws.ec2_clock.now_s())
        missing = [template for name, template in wanted.items() if name not in self._known]
        await asyncio.gather(*(self._make(template) for template in missing))

    def discard(self, templates: Iterable[Template]) -> None:
        """Call it when EC2 reports that one of these does not exist."""
        self._known.difference_update(template.name for template in templates)

    async def delete_all(self, node_class: str) -> None:
        """Deletes the templates of a class that is being deleted."""
        ownership = self._cluster.ownership
        cluster_tag = tags.CLUSTER_NAME_TAG if ownership.names_cluster_on_templates else tags.HOLDFAST_TAG
        owned = {cluster_tag: self._cluster.name, ownership.kind.label: node_class}
        for listed in await self._tagged(owned):
            await self._delete(listed)

    async def collect(self, in_use: AbstractSet[str]) -> None:
        """Deletes unused templates of this cluster. `in_use`: the ids of templates that instances were launched
        from."""
        owned = {
            f"{tags.CLUSTER_TAG_PREFIX}{self._cluster.name}": OWNED,
            tags.HOLDFAST_TAG: self._cluster.name,
        }
        found = await self._tagged(owned)
        for listed in found:
            if not listed.name.startswith(self._cluster.ownership.template_prefix) or listed.id in in_use:
                continue
            async with self._lock(listed.name):
                # Check under the lock: a launch may have used it while others were deleted.
                if self._unused_s(listed) >= UNUSED_S:
                    await self._delete(listed)
        there = {listed.name for listed in found} | self._known
        self._used_s = {name: used_s for name, used_s in self._used_s.items() if name in there}
        self._locks = {name: lock for name, lock in self._locks.items() if name in there or lock.locked()}

    def _unused_s(self, listed: _Listed) -> int:
        """Seconds since the last use; after a restart, since its creation."""
        return self._aws.ec2_clock.now_s() - max(self._used_s.get(listed.name, 0), listed.created_s)

    async def _tagged(self, wanted: Mapping[str, str]) -> list[_Listed]:
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items()]
        found = await self._aws.pages(
            calls.EC2,
            "DescribeLaunchTemplates",
            "LaunchTemplates",
            parse=lambda raw: _Listed(
                raw["LaunchTemplateName"], raw["LaunchTemplateId"], answers.epoch_s(raw["CreateTime"])
            ),
            Filters=filters,
            MaxResults=_PAGE,
        )
        return sorted(found, key=lambda listed: listed.name)

    async def _delete(self, listed: _Listed) -> None:
        """Deletes by id: another template may have the name now."""
        self._known.discard(listed.name)
        with contextlib.suppress(errors.NotFound):
            await self._aws.call(calls.EC2, "DeleteLaunchTemplate", LaunchTemplateId=listed.id)

    async def _make(self, template: Template) -> None:
        async with self._lock(template.name):
            if template.name in self._known:
                return
            self._report_size(template)
            with contextlib.suppress(errors.AlreadyExists):  # by an earlier process or another replica
                # A new token each time: with an old one EC2 would not create a deleted template again.
                token = self._ids.token()
                await self._aws.call(
                    calls.EC2, "CreateLaunchTemplate", ClientToken=token, **template.creation()
                )
            self._known.add(template.name)

    def _report_size(self, template: Template) -> None:
        """User data grows with every label and taint of a NodePool. Without a warning, a launch that EC2 rejects is
        unexpected."""
        size = len(base64.b64decode(template.data.get("UserData", "")))
        node_class = template.tags[template.ownership.kind.label]
        self._aws.recorder.gauge(USER_DATA_BYTES, {"ec2nodeclass": node_class}, size)
        if size >= _WARN_BYTES:
            structlog.get_logger().warning(
                "user data is close to the limit of EC2: make spec.userData of the EC2NodeClass shorter",
                ec2nodeclass=node_class,
                bytes=size,
                limit=userdata.SIZE_MAX_BYTES,
            )

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())
