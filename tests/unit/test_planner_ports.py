"""Host ports in a plan: no pod is placed where a DaemonSet uses its host port."""

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from holdfast.model.host_ports import HostPort
from holdfast.model.snapshot import DaemonSetView
from planner_builders import instance_type, is_in, pods, pool, request, reservation, shape


@pytest.mark.fact("S-64")
@pytest.mark.parametrize("packing", list(Packing))
def test_claims_exclude_instance_types_on_which_a_daemonset_uses_the_host_port(packing: Packing) -> None:
    types = [
        instance_type("cheap", 4, 8, 0.1),
        instance_type("dear", 4, 8, 0.2, labels={names.ARCH: "arm64"}),
    ]
    port = (HostPort(9100),)
    on_amd = requirements.of(is_in(names.ARCH, "amd64"))
    agent = DaemonSetView("default", "agent", shape(10, app="agent", host_ports=port, node_selector=on_amd))
    pending = (*pods(2, shape(host_ports=port), "port"), *pods(1, shape(app="other"), "other"))
    plan = solve(request([pool("default", types)], pending, packing=packing, daemon_sets=(agent,)))
    with_port = [claim for claim in plan.claims if any(uid.startswith("port") for uid in claim.pods)]
    assert [claim.instance_types for claim in with_port] == [("dear",), ("dear",)]
    assert not plan.unplaced


@pytest.mark.parametrize("packing", list(Packing))
def test_a_pod_gets_no_slot_where_a_daemonset_uses_its_host_port(packing: Packing) -> None:
    slot = reservation("cr-1", "m5.large", "z1")
    both = pool(
        "both",
        [instance_type("m5.large", 2, 8, 0.1, [slot])],
        is_in(names.CAPACITY_TYPE, "reserved", "on-demand"),
    )
    port = (HostPort(9100),)
    in_slots = requirements.of(is_in(names.CAPACITY_TYPE, "reserved"))
    agent = DaemonSetView("default", "agent", shape(10, app="agent", host_ports=port, node_selector=in_slots))
    waiting = pods(1, shape(host_ports=port))
    (claim,) = solve(request([both], waiting, [slot], packing, daemon_sets=(agent,))).claims
    assert claim.capacity_type == "on-demand"


@pytest.mark.parametrize("packing", list(Packing))
@pytest.mark.parametrize(("used_on", "launched"), [("spot", "on-demand"), ("on-demand", "spot")])
def test_a_capacity_type_on_which_a_daemonset_uses_the_host_port_is_excluded(
    packing: Packing, used_on: str, launched: str
) -> None:
    """The other one can be launched, so the pod does not wait."""
    port = (HostPort(9100),)
    selects = requirements.of(is_in(names.CAPACITY_TYPE, used_on))
    agent = DaemonSetView("default", "agent", shape(10, app="agent", host_ports=port, node_selector=selects))
    types = [instance_type("m5.large", 2, 8, 0.1), instance_type("m5.xlarge", 4, 16, 0.2)]
    of = request([pool("any", types)], pods(1, shape(host_ports=port)), packing=packing, daemon_sets=(agent,))
    (claim,) = solve(of).claims
    assert claim.requirements.get(names.CAPACITY_TYPE).values == {launched}
    assert set(claim.instance_types) == {"m5.large", "m5.xlarge"}
