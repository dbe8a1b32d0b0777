"""`holdfast simulate` beside the same hours in real time at 60 times speed: the same dollars within two percent.

Run by `make e2e`. `make compare-day` compares a whole day. The morning of the example is used, with fewer slots: then most
of the dollars are paid on demand.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import real_time_study
import studies
from holdfast.cli import studies as files
from holdfast.cli.studies import Variant
from holdfast.simulate import run

SPEED = 60
MORNING = """\
apiVersion: holdfast.dev/v1alpha1
kind: World
metadata: {name: day}
spec:
  start: "2026-11-16T06:30:00Z"
  reservations:
  - {id: cr-0123456789abcdef0, total: 2}
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Many lines of the log take CPU time, which counts 60 times."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    yield
    structlog.reset_defaults()


def test_simulated_morning_costs_what_it_costs_in_real_time(tmp_path: Path) -> None:
    variant = tmp_path / "morning.yaml"
    variant.write_text(MORNING)
    _, study = files.read([str(studies.EXAMPLE)], [Variant("morning", str(variant))], (), "150m")
    folder = tmp_path / "sandbox"
    folder.mkdir()
    real, simulated = real_time_study.simulate(study, folder, SPEED), run.simulate(study)
    assert simulated.dollars.on_demand > simulated.dollars.total / 2
    assert abs(simulated.dollars.total - real.dollars.total) <= 0.02 * real.dollars.total
    assert (simulated.pods.created, simulated.unplaced_total) == (real.pods.created, real.unplaced_total)
