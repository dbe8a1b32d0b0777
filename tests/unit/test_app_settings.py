"""Settings as environment variables write them."""

import pytest

from holdfast import app, errors
from holdfast.core.scheduling.request import Packing


@pytest.mark.fact("O-1")
def test_gates_keep_their_defaults_unless_they_are_named() -> None:
    assert app.feature_gates("") == {"ReservedCapacity": True}
    assert app.feature_gates("ReservedCapacity=false") == {"ReservedCapacity": False}
    assert app.feature_gates("NodeRepair=true,SomethingNew=false") == {"ReservedCapacity": True}


def test_the_gate_has_the_name_of_both_documents() -> None:
    assert not app.from_environment(
        {"FEATURE_GATES": "CapacityReservations=false"}
    ).planning.reserved_capacity
    assert app.from_environment({"FEATURE_GATES": "CapacityReservations=true"}).capacity.reserved_capacity


def test_every_setting_is_read_by_its_name() -> None:
    found = app.from_environment(
        {
            "CLUSTER_NAME": "blue",
            "BATCH_IDLE_DURATION": "2s",
            "BATCH_MAX_DURATION": "1m",
            "PACKING": "karpenter",
            "PACKING_CANDIDATES": "3",
            "RESERVED_BEFORE_WEIGHT": "false",
            "RESERVATION_WAIT": "90s",
            "LEDGER_LAG": "3m",
            "DISABLE_LEADER_ELECTION": "true",
            "KUBE_CLIENT_QPS": "50",
        }
    )
    assert (found.cluster_name, found.batching.idle_s, found.batching.longest_s) == ("blue", 2, 60)
    plan = found.planning
    assert (plan.packing, plan.packing_candidates) == (Packing.KARPENTER, 3)
    assert (plan.reserved_before_weight, plan.reservation_wait_s, plan.ledger_lag_s) == (False, 90, 180)
    assert found.election is None
    assert found.client.per_second == 50


@pytest.mark.fact("O-2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FEATURE_GATES", "ReservedCapacity"),
        ("BATCH_IDLE_DURATION", "soon"),
        ("PREFERENCE_POLICY", "Maybe"),
        ("PACKING_CANDIDATES", "-1"),
        ("ISOLATED_VPC", "yes"),
    ],
)
def test_a_setting_that_cannot_be_read_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(errors.InvalidInput, match=name):
        app.from_environment({name: value})
