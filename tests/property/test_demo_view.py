"""The screen of the demo for random states and sizes: it fits, and it counts what it hides."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.demo import layout, view
from holdfast.demo.gangs import GangStatus
from holdfast.demo.layout import Line, Section
from holdfast.demo.money import Cost
from holdfast.demo.status import NodeStatus, ReservationStatus, Status
from holdfast.demo.view import Frame

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
COUNTS = st.integers(0, 300)
AMOUNTS = st.integers(0, 10**15)
HIDDEN = re.compile(r"(\d+) (reservation|node|workload|pending pod|address|command|cost)(?:es|s)?\b")


@st.composite
def reservations(draw: st.DrawFn) -> ReservationStatus:
    total = draw(st.integers(1, 300))
    return ReservationStatus(
        id=f"cr-{draw(st.integers(0, 10**9)):017x}",
        instance_type=draw(st.sampled_from(["m5.xlarge", "p4d.24xlarge"])),
        zone="us-west-2a",
        kind=draw(st.sampled_from(["targeted", "open", "capacity block"])),
        used=draw(st.integers(0, total)),
        total=total,
        state=draw(st.sampled_from(["active", "cancelled"])),
        ends_in_s=draw(st.none() | st.integers(-10, 10**6)),
        starts_in_s=draw(st.none() | st.integers(1, 10**6)),
    )


@st.composite
def nodes(draw: st.DrawFn) -> NodeStatus:
    return NodeStatus(
        claim=f"general-{draw(st.integers(0, 10**6)):x}",
        node="",
        instance_type=draw(st.sampled_from(["", "m5.xlarge"])),
        zone="us-west-2a",
        capacity=draw(st.sampled_from(["", "reserved", "spot", "on-demand"])),
        reservation_id=draw(st.sampled_from(["", "cr-1"])),
        nano_usd=draw(AMOUNTS),
        state="ready",
        pods=tuple(draw(st.lists(st.tuples(NAMES, st.integers(1, 9)), max_size=3))),
    )


GANGS = st.builds(
    GangStatus,
    kind=st.sampled_from(["ProvisioningRequest", "PodGroup"]),
    name=NAMES,
    pods=COUNTS,
    running=COUNTS,
    state=st.sampled_from(["Provisioned=True", "waits"]),
    run_time_s=st.none() | st.integers(0, 10**7),
    message=st.text(max_size=300),
)


@st.composite
def statuses(draw: st.DrawFn) -> Status:
    return Status(
        elapsed_s=draw(st.integers(0, 10**6)),
        reservations=tuple(draw(st.lists(reservations(), max_size=6))),
        nodes=tuple(draw(st.lists(nodes(), max_size=15))),
        running={},
        replicas=draw(st.dictionaries(NAMES, COUNTS, max_size=6)),
        pending=draw(st.dictionaries(NAMES, NAMES, max_size=6)),
        cost=Cost(draw(AMOUNTS), draw(AMOUNTS), draw(AMOUNTS)),
        total=Cost(draw(AMOUNTS), draw(AMOUNTS), draw(AMOUNTS)),
        gangs=tuple(draw(st.lists(GANGS, max_size=6))),
    )


FRAMES = st.builds(
    Frame,
    title=st.just("Holdfast demo"),
    addresses=st.just((("In another terminal", "source /tmp/demo/env"), ("Page", "http://127.0.0.1:1"))),
    tips=st.just(("kubectl get nodes", "aws ec2 describe-instances")),
    width=st.integers(20, 250),
    height=st.integers(5, 80),
    color=st.booleans(),
)
LOGS = st.lists(st.just("0:00:01  launched a node"), max_size=60)


@given(statuses(), LOGS, FRAMES)
def test_screen_is_never_larger_than_the_terminal(status: Status, log: list[str], frame: Frame) -> None:
    lines = view.draw(status, log, frame)
    assert len(lines) <= frame.height
    assert max(map(layout.visible, lines)) <= frame.width
    assert all(line.isprintable() for line in lines) or frame.color
    assert "source /tmp" in " ".join(lines) or frame.width < 40


@given(statuses(), LOGS, FRAMES)
def test_shown_and_hidden_reservations_and_nodes_add_up(status: Status, log: list[str], frame: Frame) -> None:
    lines = view.draw(status, log, frame)
    shown = Counter(
        reservation=sum(line.lstrip().startswith("cr-") for line in lines),
        node=sum(line.lstrip().startswith("general-") for line in lines),
    )
    hidden: Counter[str] = Counter()
    for count, noun in HIDDEN.findall(lines[-1]) if "larger" in lines[-1] else ():
        hidden[noun] += int(count)
    if "\u2026" not in lines[-1]:  # the count itself is not cut
        assert shown["reservation"] + hidden["reservation"] == len(status.reservations)
        assert shown["node"] + hidden["node"] == len(status.nodes)


@st.composite
def sections(draw: st.DrawFn) -> tuple[Section, ...]:
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=6))
    return tuple(
        Section(
            title=f"title {index}",
            lines=tuple(
                Line(f"line {index} {line}", f"noun{index}", draw(st.integers(1, 3))) for line in range(size)
            ),
            rank=draw(st.integers(0, 9)),
            least=draw(st.integers(1, 5)),
        )
        for index, size in enumerate(sizes)
    )


@given(sections(), st.integers(0, 60))
def test_lines_that_fit_and_hidden_counts_add_up(given_sections: tuple[Section, ...], height: int) -> None:
    lines, hidden = layout.fit(given_sections, height)
    assert len(lines) <= height
    for index, section in enumerate(given_sections):
        shown = sum(line.count for line in section.lines if line.text in lines)
        assert shown + hidden[f"noun{index}"] == sum(line.count for line in section.lines)
