"""Checks the workflows of GitHub with actionlint, built from peers/workflow-tools: `make check-workflows`.

tests/unit/test_workflows.py checks what actionlint does not know: that they call targets of the Makefile.
"""

import subprocess
import sys

import build_peers


def main() -> int:
    if code := build_peers.main(["actionlint"]):
        return code
    folder = build_peers.PEERS.parent
    files = sorted(map(str, (folder / ".github/workflows").glob("*.yml")))
    command = [str(build_peers.binary("actionlint")), "-no-color", *files]
    done = subprocess.run(command, cwd=folder, check=False)  # noqa: S603 - our own actionlint
    if done.returncode == 0:
        print(f"actionlint: ok, {len(files)} workflows")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
