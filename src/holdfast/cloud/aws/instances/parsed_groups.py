"""Parses the groups of a DescribeInstances response, and a group that cannot change only once.

Called by `provider`. A hashable group cannot change (`answers.Checked`); what botocore parses is never hashable, so
nothing is cached of it. A parsed group is used again while EC2's clock is as far ahead and the classes of its instances
select the same reservations.
"""

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.cloud.aws.client import answers
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance, Selected

Parse = Callable[[Mapping[str, Any]], tuple[EC2Instance, ...]]


class _Parsed(NamedTuple):
    group: "weakref.ref[Any]"  # entries last as long as their group
    ahead_s: int
    classes: tuple[str, ...]  # of each instance
    selected: tuple[Any, ...]  # the reservations that the class of each instance selects
    instances: tuple[EC2Instance, ...]


class ParsedGroups:
    def __init__(self, class_tag: str) -> None:
        self._class_tag = class_tag
        self._parsed: dict[int, _Parsed] = {}  # by the identity of the group

    def parser(self, selected: Selected, ahead_s: int) -> Parse:
        """Parses the groups of one list. `ahead_s`: seconds that EC2's clock is ahead."""
        selected_by = functools.cache(selected)  # during one list it does not change

        def selections(classes: tuple[str, ...]) -> tuple[Any, ...]:
            return tuple([selected_by(one) for one in classes])

        def parse(group: Mapping[str, Any]) -> tuple[EC2Instance, ...]:
            before = self._parsed.get(id(group))
            if (
                before is not None
                and before.group() is group
                and before.ahead_s == ahead_s
                and before.selected == selections(before.classes)
            ):
                return before.instances
            found = tuple(
                [ec2_instances.read(raw, selected_by, ahead_s, self._class_tag) for raw in group["Instances"]]
            )
            if answers.is_hashable(group):
                classes = tuple([one.tags.get(self._class_tag, "") for one in found])
                self._remember(group, ahead_s, classes, selections(classes), found)
            return found

        return parse

    def _remember(
        self,
        group: Any,
        ahead_s: int,
        classes: tuple[str, ...],
        selected: tuple[Any, ...],
        found: tuple[EC2Instance, ...],
    ) -> None:
        """Until the group ends: its identity may then be that of another one."""
        key, parsed = id(group), self._parsed
        reference = weakref.ref(group, lambda _: parsed.pop(key, None))
        parsed[key] = _Parsed(reference, ahead_s, classes, selected, found)
