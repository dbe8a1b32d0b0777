"""A small project to try the parity tool on: three pages, a parity.toml and tests, under a temporary folder.

Built by the tests of `scripts/generate_parity.py`: from nothing it is valid and has one fact of each kind.
"""

from pathlib import Path
from textwrap import dedent
from typing import Final

SEEDS: Final = """\
    | id | requirement | seed | area |
    | --- | --- | --- | --- |
    | Q-1 | terms are ORed | 000 | H, E |
    """
CORE: Final = """\
    ## 7. CRDs
    ### 7.1 NodePool [src: apis/v1]
    - C-1 The first sentence. The second
      goes on.
    """
AWS: Final = """\
    ## 1. EC2NodeClass
    ### 1.1 Spec
    1.1.1 Exactly one of `role` and `instanceProfile`.
    """
NOTHING_FINISHED: Final = "finished = []\n"


def write(
    root: Path,
    *,
    seeds: str = SEEDS,
    core: str = CORE,
    aws: str = AWS,
    toml: str = NOTHING_FINISHED,
    tests: str = "",
) -> Path:
    files = {
        "docs/spec/seed-requirements.md": seeds,
        "docs/spec/karpenter-core.md": core,
        "docs/spec/karpenter-aws.md": aws,
        "docs/parity.toml": toml,
        "tests/unit/test_it.py": tests,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return root
