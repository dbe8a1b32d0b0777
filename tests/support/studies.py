"""Small studies for tests of simulations."""

from pathlib import Path
from typing import Any

import yaml

from holdfast.api import kinds
from holdfast.api.simulation import SimulationSpec
from holdfast.api.world import World
from holdfast.core.scheduling.input.request import Settings
from holdfast.sim import world_reading
from holdfast.sim.cluster.timings import Timings
from holdfast.simulate.study import Study

EXAMPLE = Path(__file__).parents[2] / "studies/day.yaml"
BEGINS_S = 1_794_787_200  # Monday, 16 November 2026, 00:00 UTC


def study(duration: str = "1h", **fields: Any) -> Study:
    """The NodePool, class and reservation of the example, without its workloads."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    (world,) = [one for one in documents if one["kind"] == "World"]
    decoded = kinds.from_plain(world, World)
    assert isinstance(decoded, World)
    setup = world_reading.read(decoded, BEGINS_S)
    assert not isinstance(setup, tuple)
    plain: dict[str, Any] = {
        "name": "test",
        "input": "",
        "begins_s": BEGINS_S,
        "spec": SimulationSpec(duration=duration),
        "world": decoded,
        "setup": setup,
        "timings": Timings(heartbeats=False),
        "planning": Settings(),
        "objects": tuple(one for one in documents if one["kind"] in ("EC2NodeClass", "NodePool")),
    }
    return Study(**(plain | fields))
