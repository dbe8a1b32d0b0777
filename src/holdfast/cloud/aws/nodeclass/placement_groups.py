"""Finds the placement group that a class selects.

Called by `resolve`. Classes with the same selector share the response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, ports
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import PlacementGroupSelector
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.sources import Answers

TTL_S: Final = 300.0
MISSING_TTL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    id: str
    name: str
    strategy: str


class PlacementGroups:
    def __init__(self, aws: Calls, clock: ports.Clock) -> None:
        self._aws = aws
        self._answers = Answers[PlacementGroupSelector, PlacementGroup | None](clock)

    async def of(self, node_class: EC2NodeClass) -> PlacementGroup | None:
        """None if the class selects no group; raises NotFound if the group does not exist."""
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return None
        found = await self._answers.get(
            selector, lambda group: TTL_S if group else MISSING_TTL_S, lambda: self._describe(selector)
        )
        if found is None:
            raise errors.NotFound(f"EC2 knows no placement group {selector.name or selector.id}")
        return found

    async def _describe(self, selector: PlacementGroupSelector) -> PlacementGroup | None:
        by: dict[str, Any] = {"GroupNames": [selector.name]} if selector.name else {"GroupIds": [selector.id]}
        try:
            found = await self._aws.pages(
                calls.EC2, "DescribePlacementGroups", "PlacementGroups", parse=_group, **by
            )
        except errors.NotFound:
            return None
        return next((group for group in found if group is not None), None)


def _group(raw: Mapping[str, Any]) -> PlacementGroup | None:
    if raw.get("State") != "available":
        return None
    return PlacementGroup(raw.get("GroupId", ""), raw["GroupName"], raw.get("Strategy", ""))
