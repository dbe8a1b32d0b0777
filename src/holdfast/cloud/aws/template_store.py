"""Launch templates as EC2 has them: made once, kept while their class lives, made again when they are gone.

Called by `launching`, and when a class is deleted. A name is derived from all that a template says, so one
that exists already is the right one, whoever made it: there is no need to look before making it.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from holdfast import errors, ports
from holdfast.api import aws as tags
from holdfast.cloud.aws import calls
from holdfast.cloud.aws.calls import Calls
from holdfast.cloud.aws.cluster import Cluster
from holdfast.cloud.aws.templates import Template

_PAGE: Final = 200


class TemplateStore:
    def __init__(self, aws: Calls, cluster: Cluster, ids: ports.Ids) -> None:
        self._aws = aws
        self._ids = ids
        self._cluster = cluster
        self._known: set[str] = set()
        self._making: dict[str, asyncio.Lock] = {}

    async def ensure(self, templates: Iterable[Template]) -> None:
        """Returns when EC2 has all of them; each is made by one caller, however many want it."""
        unknown = {template.name: template for template in templates if template.name not in self._known}
        await asyncio.gather(*(self._make(template) for template in unknown.values()))

    def forget(self, templates: Iterable[Template]) -> None:
        """EC2 said that one of these is gone."""
        self._known.difference_update(template.name for template in templates)

    async def delete_all(self, node_class: str) -> None:
        """Of a class that is deleted."""
        found = await self._aws.pages(
            calls.EC2,
            "DescribeLaunchTemplates",
            "LaunchTemplates",
            Filters=[
                {"Name": f"tag:{tags.CLUSTER_NAME_TAG}", "Values": [self._cluster.name]},
                {"Name": f"tag:{tags.EC2NODECLASS}", "Values": [node_class]},
            ],
            MaxResults=_PAGE,
        )
        for name in sorted(template["LaunchTemplateName"] for template in found):
            self._known.discard(name)
            with contextlib.suppress(errors.NotFound):
                await self._aws.call(calls.EC2, "DeleteLaunchTemplate", LaunchTemplateName=name)

    async def _make(self, template: Template) -> None:
        async with self._making.setdefault(template.name, asyncio.Lock()):
            if template.name in self._known:
                return
            with contextlib.suppress(errors.AlreadyExists):  # by an earlier life, or by another replica
                # A token of its own each time: with an old one EC2 would not make again what was deleted.
                token = self._ids.token()
                await self._aws.call(
                    calls.EC2, "CreateLaunchTemplate", ClientToken=token, **template.creation()
                )
            self._known.add(template.name)
        self._making.pop(template.name, None)
