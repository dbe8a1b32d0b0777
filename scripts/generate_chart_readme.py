"""Write the tables of values into the README files of the charts, or report that they are stale.

The source are the comments of values.yaml: `# -- ` starts the description of the value below. Run by `make generate`,
and with --check by `make check`.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ("charts/holdfast", "charts/holdfast-crd")
BEGIN = "<!-- values: written by scripts/generate_chart_readme.py from values.yaml -->\n"
END = "<!-- end of values -->\n"


def table(values: str) -> str:
    rows = ["| value | default | description |", "| --- | --- | --- |"]
    for name, default, description in _rows(values):
        shown = json.dumps(default, ensure_ascii=False).replace("|", "\\|")
        rows.append(f"| `{name}` | `{shown}` | {description} |")
    return "\n".join(rows) + "\n"


def _rows(text: str) -> Iterator[tuple[str, Any, str]]:
    yield from _values(yaml.compose(text, Loader=yaml.SafeLoader), text.splitlines(), "")


def _values(node: Any, lines: list[str], prefix: str) -> Iterator[tuple[str, Any, str]]:
    """A value with a description is one row; a mapping without one is a group of values."""
    for key, value in node.value:
        name, description = prefix + key.value, _description(lines, key.start_mark.line)
        if description:
            yield name, yaml.SafeLoader("").construct_document(value), description
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _values(value, lines, f"{name}.")
        else:
            raise SystemExit(f"values.yaml: {name} has no description: write a comment that starts with # --")


def _description(lines: list[str], line: int) -> str:
    """The `# -- ` line of the comment directly above; its other lines explain the default and are left out."""
    for above in reversed(lines[:line]):
        comment = re.match(r"\s*# ?(.*)", above)
        if comment is None:
            return ""
        if comment[1].startswith("-- "):
            return comment[1].removeprefix("-- ")
    return ""


def wanted(chart: str) -> tuple[Path, str]:
    """The README file of a chart, and what it should contain."""
    readme = ROOT / chart / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    values = (ROOT / chart / "values.yaml").read_text(encoding="utf-8")
    return readme, f"{before}{BEGIN}\n{table(values)}\n{END}{after}"


def stale() -> list[str]:
    return [
        f"{chart}/README.md"
        for chart in CHARTS
        for readme, text in (wanted(chart),)
        if readme.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    found = stale()
    if "--check" in sys.argv[1:]:
        if found:
            print(f"stale: {', '.join(found)}; run `make generate`")
        return 1 if found else 0
    for chart in CHARTS:
        readme, text = wanted(chart)
        readme.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
