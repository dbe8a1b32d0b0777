"""`holdfast reservations`: shows how full reservations are, which nodes use them, and what idle slots cost."""

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
import msgspec

from holdfast import errors
from holdfast.api.reports import ReservationRow, ReservationsReport, SlotsReport
from holdfast.app.answers import Answers
from holdfast.cli import leader, page_output, reservations_page

_LAST: Final = float("inf")
# Numbers are sorted from the largest, everything else in ascending order.
_SORT: Final[Mapping[str, Callable[[ReservationRow], Any]]] = {
    "id": lambda one: one.id,
    "type": lambda one: one.instance_type,
    "zone": lambda one: one.zone,
    "kind": lambda one: one.kind,
    "state": lambda one: (one.state, one.window),
    "ends": lambda one: _LAST if one.ends is None else one.ends,
    "total": lambda one: -one.total,
    "here": lambda one: -one.here,
    "other": lambda one: -one.elsewhere,
    "held": lambda one: -one.held,
    "releasing": lambda one: -one.releasing,
    "free": lambda one: -one.free,
    "idle": lambda one: -(one.idle_usd_per_hour or 0.0),
}


@click.command(epilog=leader.EXIT_CODES)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--sort", type=click.Choice(list(_SORT)), default="id", show_default=True)
@click.option("--type", "instance_type", metavar="TYPE", help="Only this instance type; p5.* for a family.")
@click.option("--zone", metavar="ZONE", help="Only this zone.")
@click.option("--kind", metavar="KIND", help="Only on-demand, capacity-block or interruptible.")
@click.option("--state", metavar="STATE", help="Only this state or window, such as active or draining.")
@click.option("--class", "node_class", metavar="NAME", help="Only those that this EC2NodeClass selects.")
@click.option("--unselected", is_flag=True, help="Only those that no EC2NodeClass selects.")
@click.option("--idle", is_flag=True, help="Only those with idle slots.")
@leader.options
@click.pass_context
def command(ctx: click.Context, /, output: str | None, **given: Any) -> None:
    """Show how full reservations are, and what idle slots cost.

    Asks the leader; reads only. HERE is used by this cluster, OTHER by other clusters and accounts, HELD by NodeClaims
    that are being launched. CLASSES are the EC2NodeClasses that select it. Without a terminal the sums are on standard error.
    """
    report, slots, is_filtered = leader.ask(
        ctx, lambda found: _read(found, given, with_slots=output not in {"json", "yaml"})
    )
    leader.write(
        output,
        report,
        lambda wide: reservations_page.build(
            report, slots.items, exact=not page_output.is_terminal(), wide=wide, filtered=is_filtered
        ),
    )


async def _read(
    found: Answers, given: Mapping[str, Any], *, with_slots: bool
) -> tuple[ReservationsReport, SlotsReport, bool]:
    everything = await found.reservations()
    missing = sorted(set(given["ids"]) - {one.id for one in everything.items})
    if missing:
        raise errors.NotFound(f"no reservation {', '.join(missing)}")
    items = [one for one in everything.items if _matches(one, given)]
    items.sort(key=lambda one: (_SORT[given["sort"]](one), one.id))
    report = msgspec.structs.replace(
        everything,
        items=tuple(items),
        idle_usd_per_hour=sum(one.idle_usd_per_hour or 0.0 for one in items),
        without_price=sum(1 for one in items if one.idle and one.idle_usd_per_hour is None),
    )
    used = [one.id for one in items if one.here or one.held] if with_slots else []
    slots = await found.slots(used) if used else SlotsReport(at=report.at)
    return report, slots, len(items) < len(everything.items)


def _matches(one: ReservationRow, given: Mapping[str, Any]) -> bool:
    wanted_type = given["instance_type"]
    return (
        (not given["ids"] or one.id in given["ids"])
        and (not wanted_type or fnmatch.fnmatchcase(one.instance_type, wanted_type))
        and given["zone"] in {None, one.zone}
        and given["kind"] in {None, one.kind}
        and given["state"] in {None, one.state, one.window}
        and (given["node_class"] is None or given["node_class"] in one.node_classes)
        and not (given["unselected"] and one.node_classes)
        and (one.idle > 0 or not given["idle"])
    )
