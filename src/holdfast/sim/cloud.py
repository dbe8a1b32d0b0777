"""A simulated AWS from one setup: EC2, IAM, SQS, EventBridge, SSM, EKS, the price list and STS, connected to each other.

Clients reach it through `endpoint` and a front of `sim.aws.fronts`. Services share their data: a parameter of SSM has
the id of an EC2 image, EC2 reads the instance profiles of IAM, events of EC2 arrive in the queue. While it is
`running`, scheduled changes happen at their time, even without an API call. With a state file it continues after a
restart.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import errors, ports
from holdfast.sim.aws import eks, events, faults, pricing, ssm, sts, waiting
from holdfast.sim.aws.endpoint import LOG_MAX, Endpoint
from holdfast.sim.aws.iam import Iam
from holdfast.sim.aws.service import Service
from holdfast.sim.aws.sqs import Sqs
from holdfast.sim.cloud_setup import CloudSetup, access_key
from holdfast.sim.ec2 import control, eks_images, setup, store
from holdfast.sim.ec2.service import Ec2

_SAVE_EVERY_S: Final = 30
_SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"  # EC2 creates it for the first spot request of an account


@dataclass(frozen=True, slots=True)
class _Saved:
    region: str
    accounts: tuple[str, ...]
    ec2: bytes
    iam: bytes
    sqs: bytes


class Cloud:
    def __init__(
        self,
        about: CloudSetup,
        *,
        clock: ports.Clock,
        ids: ports.Ids,
        state_file: Path | None = None,
        wire_faults: faults.Faults | None = None,
        log_max: int = LOG_MAX,
    ) -> None:
        self.about = about
        self._clock = clock
        self._state_file = state_file
        self._planned = asyncio.Event()
        self.iam = Iam((*about.roles, *((_SPOT_ROLE,) if about.spot_role else ())), clock)
        self.sqs = Sqs([about.cluster], clock, account=about.account)
        self._deliver = self.sqs.sink(about.cluster)
        self.ec2 = Ec2(
            clock=clock,
            ids=ids,
            setup=_region(about, self.iam),
            rules=about.faults,
            sink=self._event,
            planned=self._planned.set,
            throttled=about.throttled,
        )
        self.endpoint = Endpoint(
            self._services(),
            clock,
            faults=wire_faults,
            account=about.account,
            accounts={access_key(account): account for account in about.accounts},
            log_max=log_max,
        )
        if state_file is not None and state_file.exists():
            self._load(state_file)
        else:
            self._begin()
        self._saved = self._writes()

    @property
    def queue(self) -> str:
        """The name of the queue that receives the events of the own account."""
        return self.about.cluster

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Cloud"]:
        """Inside the block, scheduled changes happen at their time; at the end the state is saved if there is a file
        for it."""
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self._tick())]
            if self._state_file is not None:
                beside.append(tasks.create_task(self._save_often()))
            try:
                yield self
            finally:
                for task in beside:
                    task.cancel()
                self.save()

    def save(self) -> None:
        """Writes the state file atomically: a reader finds the whole old file or the whole new file."""
        if self._state_file is None:
            return
        about = self.about
        ec2, iam, sqs = store.dump(self.ec2.region), self.iam.dump(), self.sqs.dump()
        new = self._state_file.with_name(f"{self._state_file.name}.new")
        new.write_bytes(msgspec.msgpack.encode(_Saved(about.region, about.accounts, ec2, iam, sqs)))
        new.replace(self._state_file)
        self._saved = self._writes()

    async def _tick(self) -> None:
        """Sleeps until the next change is due, or until another one is scheduled."""
        while True:
            self.ec2.advance()
            self._planned.clear()
            waits: list[Coroutine[Any, Any, Any]] = [self._planned.wait()]
            if self.ec2.region.agenda:
                due_s = self.ec2.region.agenda[0][0]
                waits.append(self._clock.sleep(max(0, due_s - self._clock.now_s())))
            await waiting.first(*waits)

    async def _save_often(self) -> None:
        while True:
            await self._clock.sleep(_SAVE_EVERY_S)
            if self._writes() != self._saved:
                self.save()

    def _writes(self) -> tuple[int, int]:
        """It grows with calls and with scheduled changes, so the state is saved after both."""
        return self.ec2.region.writes, self.endpoint.counts.total()

    def _services(self) -> dict[str, Service]:
        about, region = self.about, self.ec2.region.setup
        mine = [group.id for group in region.security_groups if group.account == about.account]
        cluster = eks.Cluster(
            name=about.cluster,
            region=about.region,
            version=about.kubernetes,
            endpoint=about.kube_endpoint,
            certificate_authority=about.certificate_authority,
            created_s=self._clock.now_s(),
            vpc_id=setup.VPC,
            subnet_ids=[subnet.id for subnet in region.subnets if subnet.account == about.account],
            security_group_id=mine[0],
        )
        return {
            "ec2": self.ec2,
            "eks": eks.Eks([cluster]),
            "events": events.Events([self._rule()]),
            "iam": self.iam,
            "pricing": pricing.Pricing([about.region], about.prices),
            "sqs": self.sqs,
            "ssm": ssm.Ssm(eks_images.parameters(about.kubernetes), self._clock),
            "sts": sts.Sts(),
        }

    def _rule(self) -> events.Rule:
        about = self.about
        arn = f"arn:aws:sqs:{about.region}:{about.account}:{self.queue}"
        return events.Rule(self.queue, arn, {"source": ["aws.ec2", "aws.health"]})

    def _event(self, event: Mapping[str, Any]) -> None:
        """The EventBridge rule belongs to the own account and receives no events of other accounts."""
        if event["account"] == self.about.account:
            self._deliver(event)

    def _begin(self) -> None:
        region = self.ec2.region
        for reserved in self.about.reservations:
            if not reserved.lent_from:
                fields = asdict(reserved)
                del fields["lent_from"]
                fields["owner"] = reserved.owner or self.about.account
                fields["start_s"] = reserved.start_s or region.now_s
                control.add_reservation(region, **fields)
        for lent in self.about.reservations:
            if lent.lent_from:
                about = {"id": lent.id, "tags": lent.tags, "elsewhere": lent.elsewhere}
                control.lend(region, lent.lent_from, lent.total, **about)
        for pool, left in self.about.limits.items():
            control.limit_pool(region, *pool, left)

    def _load(self, state_file: Path) -> None:
        try:
            saved = msgspec.msgpack.decode(state_file.read_bytes(), type=_Saved)
        except msgspec.MsgspecError as error:
            raise errors.InvalidInput(
                f"{state_file} holds no state of a simulated AWS; remove it to begin anew"
            ) from error
        if (saved.region, saved.accounts) != (self.about.region, self.about.accounts):
            raise errors.InvalidInput(
                f"{state_file} is of {saved.region} with the accounts {', '.join(saved.accounts)}; "
                "remove it to begin anew"
            )
        store.load(self.ec2.region, saved.ec2)
        self.iam.load(saved.iam)
        self.sqs.load(saved.sqs)


def _region(about: CloudSetup, iam: Iam) -> setup.Setup:
    plain = setup.plain(
        about.region,
        accounts=about.accounts,
        cluster=about.cluster,
        kubernetes=about.kubernetes,
        addresses=about.addresses,
    )
    limits = about.vcpu_limits
    return replace(
        plain,
        accounts=tuple(replace(each, vcpu_limit=limits.get(each.id, 0)) for each in plain.accounts),
        has_profile=iam.has_profile,
        timings=about.timings,
        prices=about.prices,
        spot_prices=about.spot_prices,
        page_size=about.page_size,
    )
