"""The ledger under eventual consistency: counts are as old as they like to be, up to the lag, and no slot is sold twice.

A world of one reservation: we launch whenever the ledger calls a slot free, machines of ours end, others come and go,
and counts are read that show what was true a while ago. What is really free is known to the test alone.
"""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.reservations import ledger
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, CloudLabels, Snapshot
from planner_builders import WELL_KNOWN, reservation

LAG_S = 120
TOTAL = 6

STEPS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 90)),
    st.tuples(st.just("read"), st.integers(0, LAG_S - 1)),  # how old the answer is
    st.tuples(st.just("launch"), st.integers(1, TOTAL)),
    st.tuples(st.just("end"), st.integers(0, TOTAL - 1)),
    st.tuples(st.just("give"), st.integers(1, TOTAL)),
)
TAKES = st.tuples(st.just("take"), st.integers(1, TOTAL))


@dataclass
class World:
    elsewhere: int
    now_s: int = 1000
    machines: list[ClaimView] = field(default_factory=list)  # in a slot
    gone: list[tuple[ClaimView, int]] = field(default_factory=list)  # that left a slot, and when
    taken: int = 0  # by others, since the beginning
    made: int = 0

    def __post_init__(self) -> None:
        self.past = [(self.now_s, self.free)]  # what was free since when
        self.seen = Snapshot(self.now_s, CloudLabels(WELL_KNOWN))
        self.read(0)

    @property
    def free(self) -> int:
        return TOTAL - self.elsewhere - len(self.machines)

    def step(self, what: str, number: int) -> None:
        getattr(self, what)(number)
        self.past.append((self.now_s, self.free))

    def wait(self, seconds: int) -> None:
        self.now_s += seconds

    def read(self, age_s: int) -> None:
        at_s = self.now_s - age_s
        shown = [free for since_s, free in self.past if since_s <= at_s] or [self.past[0][1]]
        before = ledger.count_before(self.snapshot(), LAG_S)
        count: Reservation = reservation("cr-1", "m5.large", available=shown[-1], total=TOTAL)
        self.seen = replace(self.seen, reservations=(count,), counts_read_s=self.now_s, count_before=before)

    def launch(self, wanted: int) -> None:
        for _ in range(min(wanted, self.entry().free, self.free)):
            self.made += 1
            name = f"c{self.made}"
            self.machines.append(
                ClaimView(
                    name,
                    "default",
                    NO_REQUIREMENTS,
                    self.now_s,
                    reservation_id="cr-1",
                    launched_s=self.now_s,
                    provider_id=name,
                )
            )

    def end(self, index: int) -> None:
        """A machine is gone, and its claim with it."""
        if index < len(self.machines):
            self.gone.append((self.machines.pop(index), self.now_s))

    def give(self, count: int) -> None:
        self.elsewhere -= min(count, self.elsewhere)

    def take(self, count: int) -> None:
        count = min(count, self.free)
        self.elsewhere += count
        self.taken += count

    def snapshot(self) -> Snapshot:
        """Instances that are gone are listed as such until a count can show it."""
        gone = [one for one, at_s in self.gone if self.seen.counts_read_s < at_s + LAG_S]
        instances = [instance(one, InstanceState.RUNNING) for one in self.machines]
        instances += [instance(one, InstanceState.GONE) for one in gone]
        return replace(self.seen, taken_s=self.now_s, claims=tuple(self.machines), instances=tuple(instances))

    def entry(self) -> ledger.Entry:
        return ledger.ledger(self.snapshot(), LAG_S)["cr-1"]


def instance(one: ClaimView, state: InstanceState) -> Instance:
    launched_s = one.launched_s or 0
    return Instance(one.name, "m5.large", "z1", "reserved", state, launched_s, reservation_id="cr-1")


@given(elsewhere=st.integers(0, TOTAL), steps=st.lists(STEPS, max_size=40))
def test_what_the_ledger_calls_free_is_free_however_old_the_counts_are(
    elsewhere: int, steps: list[tuple[str, int]]
) -> None:
    world = World(elsewhere)
    for what, number in steps:
        world.step(what, number)
        assert world.entry().free <= world.free


@given(elsewhere=st.integers(0, TOTAL), steps=st.lists(st.one_of(STEPS, TAKES), max_size=40))
def test_it_is_wrong_by_no_more_than_others_took(elsewhere: int, steps: list[tuple[str, int]]) -> None:
    world = World(elsewhere)
    for what, number in steps:
        world.step(what, number)
        assert world.entry().free <= world.free + world.taken


@given(
    elsewhere=st.integers(0, TOTAL),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, LAG_S)), min_size=1, max_size=6
    ),
)
def test_with_counts_that_are_up_to_date_every_free_slot_can_be_used_at_once(
    elsewhere: int, steps: list[tuple[int, int, int]]
) -> None:
    """Slots that our own instances left included, as when a reservation is rolled."""
    world = World(elsewhere)
    for ended, launched, pause_s in steps:
        for _ in range(ended):
            world.step("end", 0)
        world.step("wait", 1)
        world.step("read", 0)
        world.step("launch", launched)
        world.step("wait", pause_s)
        world.step("read", 0)
        assert world.entry().free == world.free
