"""The text of `holdfast simulate --size`: which slots would have paid for themselves, and whether a simulation confirms it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from holdfast.api.simulation_results import SimulationResult, Sizing, SizingResult
from holdfast.cli import columns
from holdfast.state.conversion import times

_SHOWN_MAX = 10  # for each type and zone
_HEAD = ("TYPE", "ZONE", "SLOTS", "FROM", "UNTIL", "COST $", "SAVES $", "NEXT SLOT $")


def lines(found: Sizing) -> Iterator[str]:
    """What is recommended."""
    if not found.results:
        yield "Sizing: no further slot would have paid for itself."
    else:
        yield "Sizing: these slots would have paid for themselves"
        yield from (f"  {line}" for line in columns.aligned([_HEAD, *_rows(found.results)]))
        yield f"Saved together, computed: ${sum(one.usd_saved for one in found.results):.2f}"
    for note in found.notes:
        yield f"note: {note}"


def confirmation(base: SimulationResult, sized: SimulationResult | None) -> str:
    """What the simulation with the slots cost."""
    if sized is None:
        return "The simulation with these slots did not end; do not rely on the numbers above."
    before, after = base.dollars.total, sized.dollars.total
    if after < before:
        return (
            f"Simulated with these slots: ${after:.2f} instead of ${before:.2f}, ${before - after:.2f} saved."
        )
    return (
        f"Simulated with these slots: ${after:.2f} instead of ${before:.2f}. They do NOT pay for themselves: pods are placed "
        "differently when there are free slots."
    )


def _rows(results: Sequence[SizingResult]) -> Iterator[tuple[str, ...]]:
    grouped: dict[tuple[str, str], list[SizingResult]] = defaultdict(list)
    for one in results:
        grouped[one.instance_type, one.zone].append(one)
    for (instance_type, zone), some in sorted(grouped.items()):
        some.sort(key=lambda one: -one.usd_saved)
        for one in some[:_SHOWN_MAX]:
            yield (
                instance_type,
                zone,
                str(one.slots),
                times.text(one.begins)[:16],
                times.text(one.ends)[:16],
                f"{one.usd_cost:.2f}",
                f"{one.usd_saved:.2f}",
                f"{one.marginal[-1]:.2f}" if one.marginal else "",
            )
        rest = some[_SHOWN_MAX:]
        if rest:
            cost, saved = sum(one.usd_cost for one in rest), sum(one.usd_saved for one in rest)
            yield (
                instance_type,
                zone,
                f"{len(rest)} more periods",
                "",
                "",
                f"{cost:.2f}",
                f"{saved:.2f}",
                "",
            )
