"""The ledger under eventual consistency: EC2's counts are stale, up to the lag, and no slot is oversold.

The test has one reservation. Random steps launch instances where the ledger reports a free slot, terminate instances,
use and release slots from other accounts, and read stale counts. Only the test knows the actual number of free slots.
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
    st.tuples(st.just("restart"), st.integers(0, LAG_S - 1)),  # how old the first answer is
)
USE_ELSEWHERE = st.tuples(st.just("take"), st.integers(1, TOTAL))


@dataclass
class Environment:
    elsewhere: int
    now_s: int = 1000
    running: list[ClaimView] = field(default_factory=list)  # in a slot
    terminated: list[tuple[ClaimView, int]] = field(default_factory=list)  # terminated, and when
    releasing: int = 0  # slots that terminated instances still use
    taken: int = 0  # slots that other accounts used since the start
    created: int = 0

    def __post_init__(self) -> None:
        self.history = [(self.now_s, self.free)]  # time, and the free slots from then on
        self.last_snapshot = Snapshot(self.now_s, CloudLabels(WELL_KNOWN))
        self.read(0)

    @property
    def free(self) -> int:
        return TOTAL - self.elsewhere - len(self.running) - self.releasing

    def step(self, what: str, number: int) -> None:
        getattr(self, what)(number)
        self.history.append((self.now_s, self.free))

    def wait(self, seconds: int) -> None:
        self.now_s += seconds

    def read(self, age_s: int) -> None:
        at_s = self.now_s - age_s
        visible = [free for since_s, free in self.history if since_s <= at_s] or [self.history[0][1]]
        before = ledger.count_before(self.snapshot(), LAG_S)
        count: Reservation = reservation("cr-1", "m5.large", available=visible[-1], total=TOTAL)
        self.last_snapshot = replace(
            self.last_snapshot, reservations=(count,), counts_read_s=self.now_s, count_before=before
        )

    def restart(self, age_s: int) -> None:
        """A new leader has the NodeClaims and the instances, no earlier count, and no terminated instances."""
        self.terminated = []
        self.last_snapshot = replace(self.last_snapshot, counts_read_s=self.now_s, count_before={})
        self.read(age_s)
        self.last_snapshot = replace(self.last_snapshot, count_before={})

    def launch(self, wanted: int) -> None:
        counted = ledger.count_before(self.snapshot(), LAG_S)["cr-1"]
        for _ in range(min(wanted, self.entry().free, self.free)):
            self.created += 1
            name = f"c{self.created}"
            self.running.append(
                ClaimView(
                    name,
                    "default",
                    NO_REQUIREMENTS,
                    self.now_s,
                    reservation_id="cr-1",
                    counted=counted,
                    launched_s=self.now_s,
                    provider_id=name,
                )
            )

    def end(self, index: int) -> None:
        """Terminates an instance and deletes its NodeClaim."""
        if index < len(self.running):
            self.terminated.append((self.running.pop(index), self.now_s))

    def leave(self, count: int) -> None:
        """Terminates the oldest instances. Their slots are not free yet."""
        for _ in range(min(count, len(self.running))):
            self.end(0)
            self.releasing += 1

    def release(self, _: int) -> None:
        self.releasing = 0

    def give(self, count: int) -> None:
        self.elsewhere -= min(count, self.elsewhere)

    def take(self, count: int) -> None:
        count = min(count, self.free)
        self.elsewhere += count
        self.taken += count

    def snapshot(self) -> Snapshot:
        """Terminated instances are listed until a count can include them."""
        terminated = [one for one, at_s in self.terminated if self.last_snapshot.counts_read_s < at_s + LAG_S]
        instances = [instance(one, InstanceState.RUNNING) for one in self.running]
        instances += [instance(one, InstanceState.GONE) for one in terminated]
        return replace(
            self.last_snapshot, taken_s=self.now_s, claims=tuple(self.running), instances=tuple(instances)
        )

    def entry(self) -> ledger.Entry:
        return ledger.ledger(self.snapshot(), LAG_S)["cr-1"]


def instance(one: ClaimView, state: InstanceState) -> Instance:
    launched_s = one.launched_s or 0
    return Instance(one.name, "m5.large", "z1", "reserved", state, launched_s, reservation_id="cr-1")


@given(elsewhere=st.integers(0, TOTAL), steps=st.lists(STEPS, max_size=40))
def test_ledger_never_reports_more_free_slots_than_exist_with_stale_counts(
    elsewhere: int, steps: list[tuple[str, int]]
) -> None:
    env = Environment(elsewhere)
    for what, number in steps:
        env.step(what, number)
        assert env.entry().free <= env.free


@given(elsewhere=st.integers(0, TOTAL), steps=st.lists(st.one_of(STEPS, USE_ELSEWHERE), max_size=40))
def test_ledger_is_wrong_by_at_most_the_slots_that_other_accounts_used(
    elsewhere: int, steps: list[tuple[str, int]]
) -> None:
    env = Environment(elsewhere)
    for what, number in steps:
        env.step(what, number)
        assert env.entry().free <= env.free + env.taken


@given(
    elsewhere=st.integers(0, TOTAL),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, LAG_S)), min_size=1, max_size=6
    ),
)
def test_current_counts_report_every_free_slot_at_once(
    elsewhere: int, steps: list[tuple[int, int, int]]
) -> None:
    """Includes slots of our own terminated instances, as when all nodes of a reservation are replaced."""
    env = Environment(elsewhere)
    for ended, launched, pause_s in steps:
        for _ in range(ended):
            env.step("end", 0)
        env.step("wait", 1)
        env.step("read", 0)
        env.step("launch", launched)
        env.step("wait", pause_s)
        env.step("read", 0)
        assert env.entry().free == env.free


@given(
    elsewhere=st.integers(0, TOTAL),
    old=st.integers(0, TOTAL),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, LAG_S)), min_size=1, max_size=6
    ),
)
def test_new_leader_with_current_counts_reports_every_free_slot_at_once(
    elsewhere: int, old: int, steps: list[tuple[int, int, int]]
) -> None:
    """Also if older instances terminated before it started, and EC2 releases their slots later."""
    env = Environment(elsewhere)
    env.step("launch", old)
    env.step("wait", 2 * LAG_S)
    old = len(env.running)
    for left, launched, pause_s in steps:
        env.step("read", 0)
        env.step("launch", launched)
        env.step("wait", pause_s)
        env.step("leave", min(left, old))
        old -= min(left, old)
        env.step("restart", 0)
        assert env.entry().free == env.free
        env.step("wait", pause_s)
        env.step("release", 0)
        env.step("read", 0)
        assert env.entry().free == env.free
