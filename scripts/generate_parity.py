"""Writes docs/parity.md: which tests show which fact of docs/spec.

`make generate` calls it, and `make check` with --check, which writes nothing. It fails if the page is stale, an id is
unknown, a fact has neither a test nor a reason, or a different fact has no test. Each error is one line that states
what to do.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from paritylib import ParityError, page, parity

ROOT = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="generate_parity.py", description="Writes docs/parity.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is wrong")
    check: bool = parser.parse_args(argv).check
    try:
        joined = parity.load(root)
    except ParityError as error:
        return _fail(error.lines)
    target = root / "docs/parity.md"
    text = page.render(joined)
    if not check:
        target.write_text(text, encoding="utf-8")
        return 0
    wrong = parity.gaps(joined)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        wrong.append(
            "docs/parity.md is not what docs/spec, docs/parity.toml and the tests say; run: make generate"
        )
    return _fail(wrong)


def _fail(lines: list[str]) -> int:
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
