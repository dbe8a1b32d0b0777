"""Writes the CRDs of the wire types to both charts, or reports that they are stale.

charts/holdfast/crds has them as they are: Helm installs them once, with the first `helm install`. charts/holdfast-crd
has the same CRDs as templates, which differ only in labels and annotations: Helm upgrades them. Run by `make generate`,
and with --check by `make check`.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from holdfast.api import crds

ROOT = Path(__file__).parent.parent
CRDS = "charts/holdfast/crds"
TEMPLATES = "charts/holdfast-crd/templates"
HEADER = "# Generated from src/holdfast/api by scripts/generate_crds.py; do not edit.\n"
METADATA = "\nmetadata:\n"
INCLUDE = '  {{- include "holdfast-crd.metadata" . | nindent 2 }}\n'


def render(crd: dict[str, Any]) -> str:
    return HEADER + yaml.safe_dump(crd, sort_keys=True, width=100, allow_unicode=True)


def template(text: str) -> str:
    """The CRD as a template of Helm, with labels and annotations from values."""
    if "{{" in text or text.count(METADATA) != 1:
        raise SystemExit("a CRD has {{, which Helm would evaluate, or metadata at two places")
    return text.replace(METADATA, METADATA + INCLUDE)


def main() -> int:
    wanted: dict[str, str] = {}
    for crd in crds.all_crds():
        name, text = f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml", render(crd)
        wanted |= {f"{CRDS}/{name}": text, f"{TEMPLATES}/{name}": template(text)}
    found = [path for folder in (CRDS, TEMPLATES) for path in sorted((ROOT / folder).glob("*.yaml"))]
    present = {str(path.relative_to(ROOT)): path.read_text() for path in found}
    if wanted == present:
        return 0
    if "--check" in sys.argv[1:]:
        stale = sorted(
            name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
        )
        print(f"stale: {', '.join(stale)}; run `make generate`")
        return 1
    for name in present.keys() - wanted.keys():
        (ROOT / name).unlink()
    for name, text in wanted.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
