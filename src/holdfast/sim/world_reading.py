"""Converts a World from a file to the setup of a simulated AWS.

All problems are reported together, with their paths. The schema (`api.scenario_schema`) has checked single fields
before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from holdfast.api import world as wire
from holdfast.api.findings import Finding, Path
from holdfast.data import ec2
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from holdfast.sim.cluster import timings as cluster
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.service import OPERATIONS
from holdfast.sim.ec2.setup import Timings
from holdfast.sim.ec2.table import HISTORY_S

_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600}
_NANO: Final = 10**9
_SECONDS_MAX: Final = 10 * 365 * 24 * 3600
_DIGITS_MAX: Final = 12  # of a number in a duration
_YEARS: Final = (1970, 9000)  # a simulated clock can continue from there long enough
_TIMINGS: Final = {  # field of the file -> field of the simulator
    "boot": "boot_s",
    "shutdown": "shutdown_s",
    "slot_release": "release_lag_s",
    "reservation_pending": "reservation_pending_s",
    "reservation_expiry": "expiry_lag_s",
    "forget": "forget_s",
    "stale": "stale_s",
    "interruption": "interruption_s",
}
_CLUSTER_TIMINGS: Final = {"join": "boot_s", "ready": "ready_s", "devices": "devices_s"}


def begin_s(written: wire.World) -> int | None:
    """When the World begins, if it sets a time."""
    return _epoch_s(written.spec.start) or None


def read(written: wire.World, begin_s: int) -> CloudSetup | tuple[Finding, ...]:
    """The setup, or the problems. Faults are timed from `begin_s` on."""
    return tuple(problems(written)) or _Reader(written.spec, begin_s).setup()


def reserved(written: wire.World, reservations: Iterable[wire.Reservation]) -> tuple[Reserved, ...]:
    """Reservations as in the setup of this World."""
    reader = _Reader(written.spec, 0)
    return tuple(reader.reserved(each) for each in reservations)


def cluster_timings(written: wire.World) -> cluster.Timings:
    """The durations from an instance to a node."""
    return cluster.Timings(**_times(written.spec.timings, _CLUSTER_TIMINGS))


def problems(written: wire.World) -> Iterator[Finding]:
    spec = written.spec
    if spec.region not in ec2.region_names():
        yield Finding(
            ("spec", "region"),
            f"{spec.region} is not a region that is shipped ({', '.join(ec2.region_names())})",
        )
        return
    yield from _misdated(spec.start, ("spec", "start"))
    checks = _Checks(spec)
    yield from _twice("accounts", [account.id for account in spec.accounts])
    yield from _twice("reservations", [reservation.id for reservation in spec.reservations])
    for n, reservation in enumerate(spec.reservations):
        yield from checks.reservation(reservation, ("spec", "reservations", n))
    for n, capacity in enumerate(spec.capacity):
        yield from checks.type_and_zone(capacity.instance_type, capacity.zone, ("spec", "capacity", n))
    for n, price in enumerate(spec.prices):
        yield from checks.type_and_zone(price.instance_type, price.zone, ("spec", "prices", n))
    for n, fault in enumerate(spec.faults):
        yield from checks.fault(fault, ("spec", "faults", n))
    for field in spec.timings.__struct_fields__:
        name = spec.timings.__struct_encode_fields__[spec.timings.__struct_fields__.index(field)]
        yield from _too_long(getattr(spec.timings, field), ("spec", "timings", name))
    yield from _too_old(spec.timings.stale, ("spec", "timings", "stale"))


class _Checks:
    """Checks that everything a World refers to exists."""

    def __init__(self, spec: wire.WorldSpec) -> None:
        self._region = ec2.region(spec.region)
        self._zones = [zone.name for zone in self._region.zones]
        self._accounts = [account.id for account in spec.accounts]
        self._reservations = {reservation.id: reservation for reservation in spec.reservations}
        self._lent = [reservation.lent_from for reservation in spec.reservations if reservation.lent_from]

    def reservation(self, written: wire.Reservation, path: Path) -> Iterator[Finding]:
        yield from self.type_and_zone(written.instance_type, written.zone, path)
        misdated = [
            *_misdated(written.start, (*path, "start")),
            *_misdated(written.end, (*path, "end")),
        ]
        yield from misdated
        if (
            not misdated
            and written.start
            and written.end
            and _epoch_s(written.end) <= _epoch_s(written.start)
        ):
            yield Finding((*path, "end"), "it must be after start")
        named = [] if written.owner_id is None else [(written.owner_id, (*path, "ownerID"))]
        named += [(account, (*path, "sharedWith", n)) for n, account in enumerate(written.shared_with)]
        for account, account_path in named:
            if account not in self._accounts:
                yield Finding(account_path, f"{account} is not among the accounts of this world")

        if written.lent_from is not None:
            yield from self._lending(written, (*path, "lentFrom"))

    def _lending(self, written: wire.Reservation, path: Path) -> Iterator[Finding]:
        source = self._reservations.get(written.lent_from or "")
        if source is None:
            yield Finding(path, f"{written.lent_from} is not among the reservations of this world")
        elif source.lent_from or source.end or source.type != "default":
            yield Finding(path, f"{source.id} cannot lend: only an ordinary reservation without an end does")
        elif (source.instance_type, source.zone) != (written.instance_type, written.zone):
            yield Finding(path, f"{source.id} is of {source.instance_type} in {source.zone}")
        elif written.total > source.total - source.used_elsewhere:
            yield Finding(
                path, f"{source.id} has {source.total - source.used_elsewhere} slots that it can lend"
            )
        elif self._lent.count(source.id) > 1:
            yield Finding(path, f"{source.id} lends to more than one")

    def type_and_zone(self, instance_type: str | None, zone: str | None, path: Path) -> Iterator[Finding]:
        offered = self._region.zones_by_type
        if instance_type is not None and instance_type not in offered:
            yield Finding((*path, "instanceType"), f"{instance_type} is not offered in {self._region.name}")
        elif zone is not None and zone not in self._zones:
            yield Finding((*path, "zone"), f"{zone} is not a zone of this region ({', '.join(self._zones)})")
        elif instance_type is not None and zone is not None and zone not in offered[instance_type]:
            where = ", ".join(offered[instance_type])
            yield Finding((*path, "zone"), f"{instance_type} is not offered there, but in {where}")

    def fault(self, written: wire.Fault, path: Path) -> Iterator[Finding]:
        yield from self.type_and_zone(written.instance_type, written.zone, path)
        if written.operation is not None and written.operation not in OPERATIONS:
            yield Finding((*path, "operation"), f"{written.operation} is not a call that is simulated")
        if written.reservation is not None and written.reservation not in self._reservations:
            message = f"{written.reservation} is not among the reservations of this world"
            yield Finding((*path, "reservation"), message)
        for name, text in (("from", written.from_), ("until", written.until), ("after", written.after)):
            yield from _too_long(text, (*path, name))
        yield from _too_old(written.lag, (*path, "lag"))


class _Reader:
    def __init__(self, spec: wire.WorldSpec, begin_s: int) -> None:
        self._spec = spec
        self._begin_s = begin_s
        self._zone_ids = {zone.name: str(zone.id) for zone in ec2.region(spec.region).zones}

    def setup(self) -> CloudSetup:
        spec = self._spec
        return CloudSetup(
            region=spec.region,
            accounts=tuple(account.id for account in spec.accounts),
            vcpu_limits={each.id: each.vcpu_limit for each in spec.accounts if each.vcpu_limit is not None},
            cluster=spec.cluster,
            kubernetes=spec.kubernetes,
            roles=spec.roles,
            addresses=spec.subnet_addresses,
            reservations=tuple(self.reserved(each) for each in spec.reservations),
            limits={
                (each.instance_type, self._zone_ids[each.zone], each.capacity_type): each.left
                for each in spec.capacity
            },
            prices={p.instance_type: _nano(p.price) for p in spec.prices if p.capacity_type == "on-demand"},
            spot_prices=self._spot_prices(),
            timings=Timings(**_times(spec.timings, _TIMINGS)),
            faults=tuple(self._fault(each) for each in spec.faults),
            throttled=spec.throttled,
            page_size=spec.page_size or 0,
        )

    def reserved(self, written: wire.Reservation) -> Reserved:
        return Reserved(
            id=written.id,
            instance_type=written.instance_type,
            zone_id=self._zone_ids[written.zone],
            total=written.total,
            owner=written.owner_id or "",
            elsewhere=written.used_elsewhere,
            shared_with=written.shared_with,
            kind=written.type,
            criteria=written.instance_match_criteria,
            start_s=_epoch_s(written.start),
            end_s=_epoch_s(written.end),
            ultraserver=written.ultra_server,
            lent_from=written.lent_from or "",
            tags=written.tags,
        )

    def _spot_prices(self) -> dict[tuple[str, str], int]:
        """Prices of one zone override those of all zones."""
        spot = [price for price in self._spec.prices if price.capacity_type == "spot"]
        found = {
            (price.instance_type, zone_id): _nano(price.price)
            for price in spot
            if price.zone is None
            for zone_id in self._zone_ids.values()
        }
        return found | {
            (price.instance_type, self._zone_ids[price.zone]): _nano(price.price)
            for price in spot
            if price.zone
        }

    def _fault(self, written: wire.Fault) -> faults.Fault:
        fields: dict[str, Any] = {
            "from_s": self._begin_s + _seconds(written.from_ or "0s"),
            "chance": written.chance_percent / 100,
            "times": written.times,
            "operation": written.operation,
            "instance_type": written.instance_type,
            "zone_id": self._zone_ids[written.zone] if written.zone else None,
            "market": written.capacity_type,
            "code": written.code,
            "reservation_id": written.reservation,
            "count": written.count,
            "at_most": written.at_most,
            "lag_s": _seconds(written.lag) if written.lag else None,
            "after_s": _seconds(written.after) if written.after else None,
            "until_s": self._begin_s + _seconds(written.until) if written.until else None,
        }
        return _FAULTS[written.type](**{name: value for name, value in fields.items() if value is not None})


_FAULTS: Final[dict[str, type[faults.Fault]]] = {
    kind.__name__: kind
    for kind in (
        faults.Lost,
        faults.Throttled,
        faults.Denied,
        faults.Broken,
        faults.Stale,
        faults.NoCapacity,
        faults.Taken,
        faults.Partial,
        faults.NeverBoots,
        faults.Silent,
        faults.HostFails,
        faults.Dies,
    )
}


def _twice(list_name: str, ids: list[str]) -> Iterator[Finding]:
    for n, each in enumerate(ids):
        if each in ids[:n]:
            yield Finding(("spec", list_name, n, "id"), f"{each} is there twice")


def _too_old(text: str | None, path: Path) -> Iterator[Finding]:
    if text is not None and _seconds(text) > HISTORY_S:
        yield Finding(path, f"no answer is older than {HISTORY_S}s here")


def _too_long(text: str | None, path: Path) -> Iterator[Finding]:
    if text is not None and _seconds(text) > _SECONDS_MAX:
        yield Finding(path, f"is more than {_SECONDS_MAX // 3600}h")


def _misdated(moment: datetime | None, path: Path) -> Iterator[Finding]:
    first, last = _YEARS
    if moment is not None and not first <= moment.year <= last:
        yield Finding(path, f"is not in the years {first} to {last}")


def _times(written: wire.Timings, names: Mapping[str, str]) -> dict[str, Any]:
    """The durations in the file, by the simulator's names."""
    return {
        name: _seconds(text) for field, name in names.items() if (text := getattr(written, field)) is not None
    }


def _seconds(text: str) -> int:
    """1h30m -> 5400. Only the first digits of a very long number are used."""
    parts = re.findall(r"0*([0-9]+)([smh])", text)
    return sum(int(count[: _DIGITS_MAX + 1]) * _UNIT_S[unit] for count, unit in parts)


def _epoch_s(moment: datetime | None) -> int:
    """A time without a zone is UTC."""
    return 0 if moment is None else int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())


def _nano(price: str) -> int:
    return int(Decimal(price) * _NANO)
