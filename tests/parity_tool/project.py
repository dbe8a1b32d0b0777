"""A small project to try the parity tool on: four pages, a parity.toml and tests, under a temporary folder.

Built by the tests of `scripts/generate_parity.py`. By default it is valid and has one fact of each kind.
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
BATCH: Final = """\
    ## 6 Gangs
    - PG-1 The least number of pods.
    """
OTHERS: Final = {"Q-1": "not there", "aws-1.1.1": "not there", "PG-1": "not there"}


def toml(**of_c1: str) -> str:
    """A parity.toml in which all but C-1 is missing, and C-1 what is given, `different="why"` for example."""
    kinds = {"different": {}, "missing": dict(OTHERS)}
    for kind, why in of_c1.items():
        kinds[kind]["C-1"] = why
    return "".join(
        f"[{kind}]\n" + "".join(f'"{fact_id}" = "{why}"\n' for fact_id, why in whys.items())
        for kind, whys in kinds.items()
    )


ALL_BUT_C1: Final = toml()


def write(
    root: Path,
    *,
    seeds: str = SEEDS,
    core: str = CORE,
    aws: str = AWS,
    batch: str = BATCH,
    toml: str = ALL_BUT_C1,
    tests: str = "",
) -> Path:
    files = {
        "docs/spec/seed-requirements.md": seeds,
        "docs/spec/karpenter-core.md": core,
        "docs/spec/karpenter-aws.md": aws,
        "docs/spec/provisioning-requests.md": batch,
        "docs/parity.toml": toml,
        "tests/unit/test_it.py": tests,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return root
