"""The screen of the demo at usual sizes, as text."""

from dataclasses import replace

import pytest

from holdfast.demo import layout, view
from holdfast.demo.gangs import GangStatus
from holdfast.demo.money import Cost
from holdfast.demo.status import NodeStatus, ReservationStatus, Status
from holdfast.demo.view import Frame

USD = 1_000_000_000
FRAME = Frame(
    title="Holdfast demo at 10x speed",
    addresses=(("In another terminal", "source /tmp/demo/env"), ("Controller log", "/var/demo/holdfast.log")),
    tips=("kubectl get nodeclaims -o wide", "aws ec2 describe-capacity-reservations"),
    width=80,
    height=24,
    color=False,
)
LOG = tuple(f"0:00:{second:02}  event {second}" for second in range(40))


def node(number: int, capacity: str = "reserved", nano_usd: int = 0) -> NodeStatus:
    reservation = "cr-0123456789abcdef0" if capacity == "reserved" else ""
    return NodeStatus(
        f"general-0000000{number}", "", "m5.xlarge", "us-west-2a", capacity, reservation, nano_usd, "ready", (("web", 1),)
    )  # fmt: skip


STATUS = Status(
    elapsed_s=3661,
    reservations=(
        ReservationStatus("cr-0123456789abcdef0", "m5.xlarge", "us-west-2a", "targeted", 2, 3, "active", None),
        ReservationStatus("cr-0123456789abcdef1", "p4d.24xlarge", "us-west-2b", "capacity block", 0, 1, "active", 2400),
        ReservationStatus("cr-0123456789abcdef2", "c5.large", "us-west-2b", "open", 1, 200, "active", None),
    ),
    nodes=(*(node(number) for number in range(7)), node(7, "spot", USD // 10)),
    running={"web": 3},
    replicas={"web": 5, "api": 0},
    pending={"web-a": "no instance type fits", "web-b": ""},
    cost=Cost(reservations=20 * USD, used=12 * USD, unreserved=1 * USD),
    total=Cost(reservations=10 * USD, used=3 * USD, unreserved=2 * USD),
)  # fmt: skip


def test_screen_of_80_columns_and_24_lines_has_all_sections_and_counts_the_rest() -> None:
    assert view.draw(STATUS, LOG, FRAME) == [
        "Holdfast demo at 10x speed   1:01:01   q or Ctrl-C to stop",
        "  In another terminal  source /tmp/demo/env",
        "  Controller log       /var/demo/holdfast.log",
        "Reservations",
        "  cr-0123456789abcdef0  m5.xlarge     ■■□       2 of 3 in use",
        "  cr-0123456789abcdef1  p4d.24xlarge  □         0 of 1 in use    ends in 0:40:00",
        "  cr-0123456789abcdef2  c5.large      ■□□□□□□□  1 of 200 in use",
        "Nodes",
        "  general-00000000  m5.xlarge  us-west-2a  reserved      -  ready  web",
        "  general-00000001  m5.xlarge  us-west-2a  reserved      -  ready  web",
        "  general-00000002  m5.xlarge  us-west-2a  reserved      -  ready  web",
        "  general-00000003  m5.xlarge  us-west-2a  reserved      -  ready  web",
        "  general-00000004  m5.xlarge  us-west-2a  reserved      -  ready  web",
        "Pods",
        "  api  0 of 0 run    web  3 of 5 run",
        "  web-a is pending: no instance type fits",
        "Cost                    per hour  since start",
        "  paid                    $21.00       $12.00",
        "  of it for idle slots     $8.00        $7.00",
        "  without reservations    $13.00        $5.00",
        "Log",
        "  0:00:38  event 38",
        "  0:00:39  event 39",
        "A larger terminal shows 3 nodes, 1 pending pod, 2 commands, 4 columns more",
    ]


@pytest.mark.parametrize(("width", "height"), [(110, 45), (250, 50)])
def test_large_terminal_hides_nothing_and_shows_more_of_the_log(width: int, height: int) -> None:
    lines = view.draw(STATUS, LOG, replace(FRAME, width=width, height=height))
    text = "\n".join(lines)
    assert "larger terminal" not in text
    assert "no free slot fits" in text
    assert "web-b is pending" in text
    assert "aws ec2 describe-capacity-reservations" in text
    assert text.count("  event ") > 8
    assert len(lines) <= height


def test_reservation_looks_full_or_empty_only_if_it_is() -> None:
    boxes = []
    for used in (0, 1, 199, 200):
        large = replace(STATUS.reservations[2], used=used)
        text = "\n".join(view.draw(replace(STATUS, reservations=(large,)), (), FRAME))
        boxes.append(text.count("■"))
    assert boxes == [0, 1, 7, 8]


def test_colors_are_drawn_only_if_requested() -> None:
    assert not any("\x1b" in line for line in view.draw(STATUS, LOG, FRAME))
    colored = view.draw(STATUS, LOG, replace(FRAME, color=True, height=50, width=120))
    assert any("\x1b[33mspot" in line for line in colored)


def test_cut_line_ends_with_a_mark_and_without_a_color() -> None:
    assert layout.cut("\x1b[32mabcdef\x1b[0m", 4) == "\x1b[32mabc…\x1b[0m"
    assert layout.cut("日本語", 5) == "日本…"
    assert layout.cut("abcd", 4) == "abcd"


def test_slots_of_a_block_that_has_not_started_do_not_count_and_the_screen_has_its_start() -> None:
    upcoming = replace(STATUS.reservations[1], total=4, state="scheduled", starts_in_s=300)
    status = replace(STATUS, reservations=(STATUS.reservations[0], upcoming))
    assert "2 of 3 reserved slots in use" in view.summary(status)
    lines = "\n".join(view.draw(status, (), FRAME))
    assert "p4d.24xlarge  □□□□  0 of 4 in use  starts in 0:05:00" in lines


def test_message_of_a_gang_is_below_its_row_and_cut_after_two_lines() -> None:
    waiting = GangStatus("ProvisioningRequest", "train", 2, 0, "Provisioned=False", 7200, "a reason " * 40)
    group = GangStatus("PodGroup", "eval", 3, 3, "scheduled")
    lines = view.draw(replace(STATUS, gangs=(waiting, group)), LOG, FRAME)
    first = lines.index("ProvisioningRequests and PodGroups") + 1
    assert lines[first] == "  train          2 pods  at most 2 hours  Provisioned=False  0 of 2 run"
    assert [line[:12] for line in lines[first + 1 : first + 3]] == ["    a reason", "    reason a"]
    assert lines[first + 2].endswith("…")
    assert lines[first + 3] == "  PodGroup eval  3 pods                   scheduled          3 of 3 run"


def test_paid_is_the_cost_without_reservations_and_of_idle_slots() -> None:
    cost = Cost(reservations=20, used=12, unreserved=3)
    assert (cost.paid, cost.without_reservations, cost.idle) == (23, 15, 8)
    assert "$21.00 per hour, of it $8.00 for idle slots; without reservations $13.00" in view.summary(STATUS)
