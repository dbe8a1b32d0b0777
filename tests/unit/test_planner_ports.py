"""Host ports in a plan: no pod meets a DaemonSet that has its port already."""

import pytest

from holdfast import names
from holdfast.core.scheduling.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from holdfast.model.host_ports import HostPort
from holdfast.model.snapshot import DaemonSetView
from planner_builders import instance_type, is_in, pods, pool, request, shape


@pytest.mark.fact("S-64")
@pytest.mark.parametrize("packing", list(Packing))
def test_a_node_never_becomes_a_type_on_which_a_daemon_set_takes_the_port(packing: Packing) -> None:
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
