"""Taints repel pods that do not tolerate them."""

import pytest

from holdfast import names
from holdfast.model import taints
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator

GPU = Taint("gpu", Effect.NO_SCHEDULE, "big")
EQUAL, EXISTS = TolerationOperator.EQUAL, TolerationOperator.EXISTS


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("gpu", EQUAL, "big"), True),
        (Toleration("gpu", EQUAL, "small"), False),
        (Toleration("gpu", EXISTS), True),
        (Toleration("cpu", EXISTS), False),
        (Toleration("", EXISTS), True),
        (Toleration("gpu", EXISTS, effect=Effect.NO_SCHEDULE), True),
        (Toleration("gpu", EXISTS, effect=Effect.NO_EXECUTE), False),
    ],
)
def test_a_toleration_covers_a_taint_by_key_value_and_effect(
    toleration: Toleration, *, tolerated: bool
) -> None:
    assert toleration.tolerates(GPU) is tolerated


@pytest.mark.parametrize(
    ("operator", "value", "tolerated"),
    [
        (TolerationOperator.LT, "6", True),
        (TolerationOperator.LT, "5", False),
        (TolerationOperator.GT, "4", True),
        (TolerationOperator.GT, "5", False),
        (TolerationOperator.GT, "04", False),
        (TolerationOperator.GT, "+4", False),
        (TolerationOperator.GT, "four", False),
    ],
)
def test_numeric_tolerations_compare_plain_integers(
    operator: TolerationOperator, value: str, *, tolerated: bool
) -> None:
    assert Toleration("risk", operator, value).tolerates(Taint("risk", Effect.NO_EXECUTE, "5")) is tolerated


@pytest.mark.fact("S-50")
@pytest.mark.parametrize("effect", list(Effect))
def test_every_taint_must_be_tolerated_whatever_its_effect(effect: Effect) -> None:
    taint = Taint("a", effect)
    assert taints.first_untolerated([taint], []) == taint
    assert taints.first_untolerated([taint], [Toleration("a", EXISTS)]) is None


def test_the_first_taint_that_is_not_tolerated_is_the_reason() -> None:
    other = Taint("spare", Effect.NO_EXECUTE)
    assert taints.first_untolerated([GPU, other], [Toleration("gpu", EXISTS)]) == other
    assert str(other) == "spare:NoExecute"
    assert str(GPU) == "gpu=big:NoSchedule"


def test_tolerating_prefer_no_schedule_tolerates_no_other_effect() -> None:
    assert taints.TOLERATE_PREFERENCES.tolerates(Taint("any", Effect.PREFER_NO_SCHEDULE, "v"))
    assert not taints.TOLERATE_PREFERENCES.tolerates(GPU)


@pytest.mark.fact("S-52")
@pytest.mark.parametrize(
    "taint",
    [
        Taint(names.NOT_READY_TAINT, Effect.NO_SCHEDULE),
        Taint(names.NOT_READY_TAINT, Effect.NO_EXECUTE),
        Taint(names.UNREACHABLE_TAINT, Effect.NO_SCHEDULE),
        Taint(names.UNINITIALIZED_TAINT, Effect.NO_SCHEDULE, "true"),
        Taint(names.UNREGISTERED_TAINT, Effect.NO_EXECUTE),
        Taint("readiness.k8s.io/network", Effect.NO_SCHEDULE),
        Taint(names.REBOOTING_TAINT, Effect.NO_SCHEDULE),
        Taint("startup", Effect.NO_SCHEDULE, "whatever"),
    ],
)
def test_ephemeral_taints_are_not_lasting(taint: Taint) -> None:
    assert taints.lasting([taint, GPU], [Taint("startup", Effect.NO_SCHEDULE)]) == (GPU,)


@pytest.mark.fact("S-52")
@pytest.mark.parametrize(
    "taint",
    [
        Taint(names.UNREACHABLE_TAINT, Effect.NO_EXECUTE),
        Taint(names.DISRUPTED_TAINT, Effect.NO_SCHEDULE),
        Taint("startup", Effect.NO_EXECUTE),
    ],
)
def test_other_taints_are_lasting(taint: Taint) -> None:
    assert not taints.is_ephemeral(taint)
    assert taints.lasting([taint], [Taint("startup", Effect.NO_SCHEDULE)]) == (taint,)
