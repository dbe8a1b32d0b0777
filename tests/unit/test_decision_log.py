"""The list of recent decisions: order, bounds, and the decisions of one object."""

from holdfast.api.meta import ObjectMeta
from holdfast.api.nodes import Node
from holdfast.model.decisions import DecisionType
from holdfast.runtime import decision_log
from holdfast.runtime.decision_log import DecisionLog
from manual_ports import ManualClock

NODE = Node(metadata=ObjectMeta(name="general-1"))


def _log(count: int) -> tuple[DecisionLog, ManualClock]:
    clock = ManualClock()
    log = DecisionLog(clock)
    for index in range(count):
        log.add(DecisionType.LAUNCH, NODE, f"decision {index}")
    return log, clock


def test_newest_decision_is_first() -> None:
    log, _ = _log(3)
    assert [one.text for one in log.newest(2)] == ["decision 2", "decision 1"]


def test_decisions_after_an_id() -> None:
    log, _ = _log(3)
    assert [one.id for one in log.newest(10, after=log.last_id - 1)] == [log.last_id]


def test_number_of_decisions_is_bounded() -> None:
    log, _ = _log(decision_log.MAX + 10)
    found = log.newest(10 * decision_log.MAX)
    assert len(found) == decision_log.MAX
    assert found[-1].text == "decision 10"


def test_decisions_of_yesterday_are_left_out() -> None:
    log, clock = _log(1)
    clock.advance(decision_log.AGE_S + 1)
    log.add(DecisionType.REMOVAL, NODE, "new")
    assert [one.text for one in log.newest(10)] == ["new"]


def test_decisions_of_yesterday_use_no_memory() -> None:
    log, clock = _log(3)
    clock.advance(decision_log.AGE_S + 1)
    log.add(DecisionType.REMOVAL, NODE, "new")
    assert [one.text for one in log.of("Node", "general-1")] == ["new"]


def test_texts_and_reasons_are_bounded() -> None:
    log, _ = _log(0)
    log.add(DecisionType.LAUNCH, NODE, "x" * 10_000, ["y" * 10_000] * 1_000)
    (found,) = log.newest(1)
    assert len(found.text) + sum(map(len, found.reasons)) <= 21 * 500


def test_decisions_of_one_object() -> None:
    log, _ = _log(2)
    log.add(DecisionType.LAUNCH, Node(metadata=ObjectMeta(name="other")), "other")
    assert [one.text for one in log.of("Node", "general-1")] == ["decision 1", "decision 0"]


def test_count_of_a_type_within_a_time() -> None:
    log, clock = _log(2)
    clock.advance(100)
    log.add(DecisionType.LAUNCH, NODE, "late")
    log.add(DecisionType.REMOVAL, NODE, "removed")
    assert log.count(DecisionType.LAUNCH, 50) == 1
    assert log.count(DecisionType.LAUNCH, 200) == 3
