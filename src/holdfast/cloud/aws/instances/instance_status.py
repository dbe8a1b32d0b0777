"""Reads DescribeInstanceStatus: failing status checks and scheduled events.

Called by `provider`, once a minute. The number of calls depends neither on the nodes nor on other instances in the
account. Completed events are ignored, although EC2 returns them for a week. A failing check of attached EBS volumes is
no reason to terminate an instance (aws-6.5.2).

EC2 ANDs filters, so Karpenter's three queries cannot be one. While the instances of the account fit on one page, one
call without a filter returns all of them. In a larger account each reading makes one of the three queries, whose
responses are short. Events are scheduled days ahead, so their query is the rarest.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.cloud.aws.client import answers, calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.model.instance_status import InstanceStatus
from holdfast.state.conversion import times

PAGE: Final = 1000
_DESCRIBE: Final = "DescribeInstanceStatus"
_LISTED: Final = "InstanceStatuses"
_IMPAIRED: Final = "impaired"
_CODES: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
_INSTANCE: Final = ("instance-status.status", (_IMPAIRED,))
_SYSTEM: Final = ("system-status.status", (_IMPAIRED,))
_TURNS: Final = (_INSTANCE, _SYSTEM, ("event.code", _CODES), _INSTANCE, _SYSTEM)
_OVER: Final = ("[Completed]", "[Canceled]")
_CHECKS: Final = {  # the host first: its failure also fails the instance
    "SystemStatus": ("system_status", "its host fails EC2's status check"),
    "InstanceStatus": ("instance_status", "its instance fails EC2's status check"),
}
_EVENT: Final = "event_status"
_HEALTHY_MAX: Final = 50_000


class Statuses:
    def __init__(self, aws: Calls) -> None:
        self._aws = aws
        self._one_page = True  # whether the account's instances fit on one page
        self._turns = itertools.cycle(_TURNS)
        # By identity, structures without a problem that cannot change (`answers.Checked`): none of botocore.
        self._healthy: dict[int, Mapping[str, Any]] = {}

    async def read(self) -> tuple[InstanceStatus, ...]:
        """The unhealthy instances of the account, each once, sorted by id."""
        found = await self._everything() if self._one_page else None
        if found is None:
            found = await self._read_filtered(*next(self._turns))
        by_id = {status.instance_id: status for status in found if status is not None}
        return tuple(by_id[key] for key in sorted(by_id))

    async def _everything(self) -> Sequence[InstanceStatus | None] | None:
        """None: there is more than one page."""

        def page(answer: Mapping[str, Any]) -> tuple[list[InstanceStatus | None], bool]:
            found, is_last = [self._read(raw) for raw in answer[_LISTED]], not answer.get("NextToken")
            if is_last and len(self._healthy) > len(found):  # some are of terminated instances
                self._healthy = {id(raw): raw for raw in answer[_LISTED] if id(raw) in self._healthy}
            return found, is_last

        found, self._one_page = await self._aws.read(calls.EC2, _DESCRIBE, page, MaxResults=PAGE)
        return found if self._one_page else None

    async def _read_filtered(self, name: str, values: Sequence[str]) -> Sequence[InstanceStatus | None]:
        filters = [{"Name": name, "Values": list(values)}]
        return await self._aws.pages(
            calls.EC2, _DESCRIBE, _LISTED, parse=self._read, Filters=filters, MaxResults=PAGE
        )

    def _read(self, raw: Mapping[str, Any]) -> InstanceStatus | None:
        """None: EC2 reports no problem."""
        if self._healthy.get(id(raw)) is raw:
            return None
        found = self._problem(raw)
        if found is None and answers.is_hashable(raw):
            if len(self._healthy) >= _HEALTHY_MAX:
                self._healthy.clear()
            self._healthy[id(raw)] = raw
        return found

    def _problem(self, raw: Mapping[str, Any]) -> InstanceStatus | None:
        id_, ec2_clock = answers.instance_id(raw["InstanceId"]), self._aws.ec2_clock
        for member, (category, message) in _CHECKS.items():
            check = raw.get(member, {})
            since = [one["ImpairedSince"] for one in check.get("Details", ()) if "ImpairedSince" in one]
            if check.get("Status") == _IMPAIRED and since:
                since_s = ec2_clock.to_program_s(min(map(answers.epoch_s, since)))
                return InstanceStatus(id_, category, message, since_s)
        for event in raw.get("Events", ()):
            if event.get("Code") in _CODES and not event.get("Description", "").startswith(_OVER):
                at = f" at {times.text(answers.epoch_s(event['NotBefore']))}" if "NotBefore" in event else ""
                return InstanceStatus(id_, _EVENT, f"AWS has scheduled {event['Code']}{at}", None)
        return None
