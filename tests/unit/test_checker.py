"""The checker as a whole: every rule has been seen to fail, and it owes nothing to the planner.

The rules are shown one by one in test_checker_pods, _claims, _slots and _topology.
"""

import ast
import re
from pathlib import Path

from checker import check, samples
from checker.samples import catalog, claim, node_class, plan, pod, pool

TESTS = Path(__file__).resolve().parents[1]
NAME = re.compile(r'(?:Violation\(|rule = )\s*"([a-z-]+)"')
ALLOWED = {"holdfast", "holdfast.api"}  # names, and the names of AWS


def test_every_rule_has_been_seen_to_fail() -> None:
    sources = [path.read_text() for path in (TESTS / "checker").glob("*.py")]
    named = {name for source in sources for name in NAME.findall(source)}
    shown = "".join(path.read_text() for path in (TESTS / "unit").glob("test_checker_*.py"))
    assert len(named) > 30
    assert {name for name in named if f'== {{"{name}"}}' not in shown} == {"determinism"}
    assert '["determinism"]' in shown


def test_the_checker_shares_no_code_with_the_planner() -> None:
    for path in sorted((TESTS / "checker").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
                names = {alias.name for alias in node.names}
                assert node.module in ALLOWED, path.name
                assert names <= {"names", "aws"}, path.name


def test_a_large_plan_is_checked_as_a_whole() -> None:
    apart = samples.neighbours("podAntiAffinity", "kubernetes.io/hostname")
    spread = samples.spread("topology.kubernetes.io/zone")
    pods = [pod(f"p{index}", **apart, **spread) for index in range(500)]
    zones = (samples.A, samples.B)
    claims = [claim(f"p{index}", zone=zones[index % 2]) for index in range(500)]
    documents = [catalog(), pool(), node_class(), *pods]
    assert check.check(documents, plan(*claims)) == []
    claims[0] = claim("p0", zone=samples.B)
    assert {violation.rule for violation in check.check(documents, plan(*claims))} == {"spread"}
