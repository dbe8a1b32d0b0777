"""Installs a real AWS CLI for `make e2e` into the user's cache folder, from its own lock file.

Called by tests/peers/e2e_aws_cli.py; `python scripts/fetch_awscli.py` prints where it is.
"""

from pathlib import Path
from typing import Final

import locked_environment

LOCK: Final = Path(__file__).resolve().parents[1] / "requirements/awscli.txt"


def aws() -> Path:
    """The program, installed if it is not there."""
    return locked_environment.folder(LOCK) / "aws"


if __name__ == "__main__":
    print(aws())
