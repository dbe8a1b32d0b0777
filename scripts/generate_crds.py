"""Writes the CRDs of the wire types to charts/holdfast/crds, or reports that they are stale.

Run by `make generate`, and with --check by `make check`.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from holdfast.api import crds

FOLDER = Path(__file__).parent.parent / "charts/holdfast/crds"
HEADER = "# Generated from src/holdfast/api by scripts/generate_crds.py; do not edit.\n"


def render(crd: dict[str, Any]) -> str:
    return HEADER + yaml.safe_dump(crd, sort_keys=True, width=100, allow_unicode=True)


def main() -> int:
    wanted = {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": render(crd)
        for crd in crds.all_crds()
    }
    present = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.yaml"))}
    if wanted == present:
        return 0
    if "--check" in sys.argv[1:]:
        stale = sorted(
            name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
        )
        print(f"stale: {', '.join(stale)} in charts/holdfast/crds; run `make generate`")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in present.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
