"""Write the table of metrics into docs/metrics.md, or report that it is stale.

The source are the declared metrics. Run by `make generate`, and with --check by `make check`.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from holdfast.app import declared_metrics
from holdfast.runtime import metrics
from holdfast.runtime.metrics import Metric

PAGE = Path(__file__).resolve().parents[1] / "docs/metrics.md"
BEGIN = "<!-- metrics: written by scripts/generate_metrics.py -->\n"
END = "<!-- end of metrics -->\n"
MANY = 20  # labels; more are not listed


def table(declared: Iterable[Metric]) -> str:
    rows = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for metric in sorted(declared, key=lambda metric: metric.name):
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        if len(metric.labels) > MANY:
            own = [one for one in ("node_name", "phase", "managed", "resource_type") if one in metric.labels]
            labels = "the well-known labels of nodes, " + ", ".join(f"`{label}`" for label in own)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.about} |")
    return "\n".join(rows) + "\n"


def wanted() -> str:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    declared = (*metrics.ENGINE, *declared_metrics.METRICS)
    return f"{before}{BEGIN}\n{table(declared)}\n{END}{after}"


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != wanted():
        print("stale: docs/metrics.md; run `make generate`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
