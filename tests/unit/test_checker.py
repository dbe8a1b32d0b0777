"""The checker as a whole: a test violates each rule, and the checker shares no code with the planner.

The rules are tested one by one in test_checker_pods, _claims, _slots and _topology.
"""

import ast
import re
from pathlib import Path

from checker import check, samples
from checker.samples import catalog, claim, node_class, plan, pod, pool

TESTS = Path(__file__).resolve().parents[1]
NAME = re.compile(r'(?:Violation\(|rule = )\s*"([a-z-]+)"')
ALLOWED = {"holdfast", "holdfast.api"}  # only holdfast.names and holdfast.api.aws


def test_every_rule_has_a_test_that_violates_it() -> None:
    sources = [path.read_text() for path in (TESTS / "checker").glob("*.py")]
    rule_names = {name for source in sources for name in NAME.findall(source)}
    test_sources = "".join(path.read_text() for path in (TESTS / "unit").glob("test_checker_*.py"))
    assert len(rule_names) > 30
    assert {name for name in rule_names if f'== {{"{name}"}}' not in test_sources} == {"determinism"}
    assert '["determinism"]' in test_sources


def test_the_checker_shares_no_code_with_the_planner() -> None:
    for path in sorted((TESTS / "checker").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
                names = {alias.name for alias in node.names}
                assert node.module in ALLOWED, path.name
                assert names <= {"names", "aws"}, path.name


def test_one_violation_in_a_large_plan_is_reported() -> None:
    apart = samples.neighbours("podAntiAffinity", "kubernetes.io/hostname")
    spread = samples.spread("topology.kubernetes.io/zone")
    pods = [pod(f"p{index}", **apart, **spread) for index in range(500)]
    zones = (samples.A, samples.B)
    claims = [claim(f"p{index}", zone=zones[index % 2]) for index in range(500)]
    documents = [catalog(), pool(), node_class(), *pods]
    assert check.check(documents, plan(*claims)) == []
    claims[0] = claim("p0", zone=samples.B)
    assert {violation.rule for violation in check.check(documents, plan(*claims))} == {"spread"}
