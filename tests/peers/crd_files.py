"""Karpenter's own CRDs, read from its Go modules: downloaded if needed, never copied into the project.

Called by `e2e_crds`.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import build_peers

Json = dict[str, Any]


def of_provider() -> tuple[Json, ...]:
    """All CRDs that the AWS provider installs."""
    return _read("karpenter-aws", "github.com/aws/karpenter-provider-aws")


def newest() -> dict[str, Json]:
    """By kind, from the newest module that has it: the core, or the AWS provider."""
    core = _read("karpenter-plan", "sigs.k8s.io/karpenter")
    return {crd["spec"]["names"]["kind"]: crd for crd in (*of_provider(), *core)}


@cache
def _read(peer: str, module: str) -> tuple[Json, ...]:
    download = subprocess.run(  # noqa: S603 - a command of our own
        ["go", "mod", "download", "-json", module],  # noqa: S607
        cwd=build_peers.PEERS / peer,
        env=os.environ | {"GOTOOLCHAIN": "auto"},
        check=True,
        capture_output=True,
    )
    folder = Path(json.loads(download.stdout)["Dir"]) / "pkg/apis/crds"
    return tuple(yaml.safe_load(one.read_text(encoding="utf-8")) for one in sorted(folder.glob("*.yaml")))
