"""Runs Karpenter's own scheduler on the input of `holdfast plan`: see peers/karpenter-plan.

Called by `bench/bench_peer.py` and by the differential test of `make e2e`.
"""

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import build_peers

VERSIONS: Final = ("1.14", "1.15")


class Answer(NamedTuple):
    """A plan document, and the statistics of each scheduling round."""

    plan: dict[str, Any]
    rounds: list[dict[str, Any]]

    @property
    def solve_s(self) -> float:
        """Seconds of Karpenter's scheduler alone, as in its own benchmark."""
        return float(sum(one["solveSeconds"] for one in self.rounds))

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the scheduler on all cores."""
        return float(sum(one["cpuSeconds"] for one in self.rounds))

    @property
    def later(self) -> frozenset[str]:
        """Pods that were placed after the first round."""
        return frozenset(name for one in self.rounds for name in one.get("later") or ())

    @property
    def rounds_until_slots_used(self) -> int:
        return max((n for n, one in enumerate(self.rounds, start=1) if one["slots"]), default=0)


def ask(documents: Sequence[dict[str, Any]], version: str = "1.15") -> Answer:
    run = subprocess.run(  # noqa: S603 - our own peer
        [build_peers.binary(f"karpenter-plan-{version}")],
        input=json.dumps(documents).encode(),
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    return Answer(json.loads(run.stdout), json.loads(run.stderr)["rounds"])
