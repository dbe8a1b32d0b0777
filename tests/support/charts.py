"""The charts, rendered with a real helm; and real helm and kubectl on a cluster."""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fetch_kubectl
from holdfast.api import documents

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/holdfast"
CRD_CHART = ROOT / "charts/holdfast-crd"
VALUES = ROOT / "tests/charts"
RELEASE = "holdfast"
NAMESPACE = "autoscaling"  # not kube-system, so that a namespace that is written out in a template is found


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def helm(*words: str | Path, environ: Mapping[str, str] | None = None) -> Done:
    command = [str(fetch_kubectl.helm()), *map(str, words)]
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)  # noqa: S603 - our own helm
    return Done(done.returncode, done.stdout, done.stderr)


def template(*words: str | Path, chart: Path = CHART, namespace: str = NAMESPACE) -> Done:
    return helm("template", RELEASE, chart, "--namespace", namespace, *words)


def render(
    values: str = "defaults", *words: str, chart: Path = CHART, namespace: str = NAMESPACE
) -> list[dict[str, Any]]:
    """The objects that the chart has with a values file of tests/charts."""
    files: Sequence[str | Path] = ("--values", VALUES / f"{values}.yaml") if chart == CHART else ()
    done = template(*files, *words, chart=chart, namespace=namespace)
    assert done.code == 0, done.err
    return read(done.out)


def read(text: str) -> list[dict[str, Any]]:
    found = []
    for document in documents.read(text.encode()):
        assert isinstance(document, documents.Document), document
        found.append(document.value)
    return found


def only(objects: Sequence[Mapping[str, Any]], kind: str, name: str = "") -> Any:
    """The one object of a kind, or of a kind and a name."""
    (found,) = [
        one for one in objects if one["kind"] == kind and (not name or one["metadata"]["name"] == name)
    ]
    return found


def controller(objects: Sequence[Mapping[str, Any]]) -> Any:
    """The container of the controller."""
    return only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def environment(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    env = controller(objects)["env"]
    names = [one["name"] for one in env]
    assert len(names) == len(set(names)), names
    return {one["name"]: one["value"] for one in env}


@dataclass(frozen=True)
class Client:
    """helm and kubectl with a kubeconfig, and with a cache of their own."""

    kubeconfig: Path

    async def run(self, program: str, *words: str | Path, stdin: Any = None) -> Done:
        home = str(self.kubeconfig.parent)
        process = await asyncio.create_subprocess_exec(
            fetch_kubectl.program(program),
            *map(str, words),
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": home},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(b"" if stdin is None else json.dumps(stdin).encode())
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    async def kubectl(self, *words: str, stdin: Any = None) -> str:
        """Standard output of a command that must succeed."""
        done = await self.run("kubectl", *words, stdin=stdin)
        assert done.code == 0, done
        return done.out

    async def helm(self, *words: str | Path) -> str:
        done = await self.run("helm", *words, "--namespace", NAMESPACE)
        assert done.code == 0, done
        return done.out

    async def install(self, *words: str | Path, values: str = "defaults") -> str:
        """Installs or upgrades the release of the chart holdfast."""
        file = VALUES / f"{values}.yaml"
        return await self.helm("upgrade", "--install", RELEASE, CHART, "--values", file, *words)
