"""Plans random scenarios and checks the plans: `make fuzz N=10000 SEED=1`.

For each seed from SEED on: generate a scenario, plan it, check the plan with the independent checker, plan it again
with the documents in another order and the plain Python kernel, and compare the bytes; if pods have preferences,
compare the plan with first fit. A seed that fails is printed with the command that replays it, and its scenario is
written to a file for `holdfast plan -f`. The summary counts the scenarios with each feature, and remarks, which are not
failures.
"""

import argparse
import importlib
import json
import sys
from collections import Counter
from pathlib import Path

from checker import features, harness, naive
from checker.harness import Outcome, Planner


def main() -> int:
    options = _options()
    planner, other = (naive.plan_documents, None) if options.planner == "naive" else _product()
    failed, remarks, seen, pods, placed = Counter[str](), Counter[str](), Counter[str](), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        outcome = harness.run(seed, planner, other)
        pods, placed = pods + outcome.pods, placed + outcome.placed
        seen.update(features.of(outcome.documents))
        remarks.update({remark.rule for remark in outcome.remarks})
        if outcome.violations:
            failed.update({violation.rule for violation in outcome.violations})
            _report(outcome, options.output)
    for feature, count in sorted(seen.items()):
        print(f"  {count:6} {feature}")
    print(f"{options.count} scenarios, {placed} of {pods} pods placed, {sum(failed.values())} rules broken")
    for rule, count in failed.most_common():
        print(f"  {rule}: {count} scenarios")
    for rule, count in remarks.most_common():
        print(f"  remark {rule}: {count} scenarios")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--planner", choices=("product", "naive"), default="product")
    parser.add_argument("--output", type=Path, default=Path(".cache/fuzz"), help="where scenarios go")
    return parser.parse_args()


def _product() -> tuple[Planner, Planner]:
    """Imported late: the checker and the naive planner work without it."""
    planner: Planner = importlib.import_module("holdfast.cli.plan").plan_documents
    other: Planner = importlib.import_module("kernels").plan_with_plain_kernel
    return planner, other


def _report(outcome: Outcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"scenario-{outcome.seed}.yaml"
    # JSON is valid YAML: one document per line.
    text = "\n---\n".join(json.dumps(document) for document in outcome.documents)
    path.write_text(f"{text}\n", encoding="utf-8")
    print(f"seed {outcome.seed} fails; replay with: make fuzz N=1 SEED={outcome.seed}; scenario in {path}")
    for rule, what in outcome.violations:
        print(f"  {rule}: {what}")


if __name__ == "__main__":
    sys.exit(main())
