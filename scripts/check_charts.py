"""Checks the charts, and a scrape, with tools that are not ours: helm lint, kubeconform, helm-unittest and promtool.

helm comes from a pinned wheel; kubeconform and helm-unittest are built from peers/chart-tools, which needs Go; promtool
is in the package `prometheus` of most distributions. The schemas are those that Kubernetes and the Prometheus Operator
publish, taken from their Go modules. A tool that is missing is reported by name and makes the check fail, so that a
check that did not run is not mistaken for one that passed.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

import build_peers
import fetch_kubectl
import wheels

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "charts/holdfast"
CRD_CHART: Final = ROOT / "charts/holdfast-crd"
VALUES: Final = tuple(sorted((ROOT / "tests/charts").glob("*.yaml")))
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
ALERT_TESTS: Final = CHART / "tests/alerts.yaml"
NAMESPACE: Final = "kube-system"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
KINDS: Final = frozenset(  # of Kubernetes; an object of another kind has no schema and is reported
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


class MissingToolError(Exception):
    """The message names the tool, and where to get it."""


class FailedError(Exception):
    """The message is the output of the tool."""


def main() -> int:
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-charts-") as name:
        for check in (lint, kubeconform, unittest, promtool, scrape):
            try:
                results[check.__name__] = check(Path(name))
            except MissingToolError as error:
                results[check.__name__] = f"NOT CHECKED: {error}"
            except FailedError as error:
                results[check.__name__] = f"FAILED\n{error}"
            print(f"{check.__name__}: {results[check.__name__]}", flush=True)
    return int(any(result.startswith(("NOT CHECKED", "FAILED")) for result in results.values()))


# --- Checks: each returns what it checked -------------------------------------------------------------


def lint(_folder: Path) -> str:
    for values in VALUES:
        run(helm(), "lint", "--strict", CHART, "--values", values)
    run(helm(), "lint", "--strict", CRD_CHART)
    return f"ok, {len(VALUES)} values files"


def kubeconform(folder: Path) -> str:
    program = peer("kubeconform")
    schemas = folder / "schemas"
    schemas.mkdir()
    write_schemas(schemas)
    count = 0
    for values in VALUES:
        rendered = render(folder, CHART, "--values", values)
        crds = render(folder, CRD_CHART)
        location = str(schemas / "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json")
        words = ("-strict", "-output", "json", "-summary", "-schema-location", location)
        summary = json.loads(run(program, *words, rendered, crds))["summary"]
        if summary["skipped"]:
            raise FailedError(f"kubeconform left out {summary['skipped']} objects of {values.name}")
        count += summary["valid"]
    return f"ok, {count} objects"


def unittest(_folder: Path) -> str:
    output = run(peer("helm-unittest"), "--strict", "--color=false", CHART)
    passed = re.search(r"Tests:\s+(\d+) passed", output)
    if passed is None or passed[1] == "0":
        raise FailedError(f"helm-unittest ran no test\n{output}")
    return f"ok, {passed[1]} tests"


def promtool(folder: Path) -> str:
    """Checks the rendered alerts, and tests them with series."""
    program = find_promtool()
    words = ("--values", ROOT / "tests/charts/defaults.yaml", "--set", "prometheusRule.enabled=true")
    rendered = render(folder, CHART, *words, "--show-only", "templates/prometheusrule.yaml")
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(yaml.safe_load(rendered.read_text())["spec"]))
    run(program, "check", "rules", "--lint-fatal", rules)
    tests = folder / "alert_tests.yaml"
    shutil.copyfile(ALERT_TESTS, tests)  # it names rules.yaml, relative to itself
    run(program, "test", "rules", tests)
    checked = yaml.safe_load(tests.read_text())["tests"]
    return f"ok, {len(checked)} tests of alerts"


def scrape(_folder: Path) -> str:
    """Checks a scrape of the controllers. The test is skipped where promtool is missing, so look for it first."""
    find_promtool()
    run(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/scenario/test_metrics.py",
        "-k",
        "promtool",
    )
    return "ok, a scrape"


# --- Tools --------------------------------------------------------------------------------------------


def find_promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        raise MissingToolError(
            "promtool is not on PATH; it is in the package prometheus of Debian and others"
        )
    return found


def helm() -> Path:
    try:
        return fetch_kubectl.helm()
    except wheels.WheelError as error:
        raise MissingToolError(f"helm: {error}") from error


def peer(name: str) -> Path:
    try:
        return build_peers.binary(name)
    except build_peers.NoGoError as error:
        raise MissingToolError(str(error)) from error
    except subprocess.CalledProcessError as error:
        raise MissingToolError(f"{name} cannot be built: {error.stderr}") from error


def run(program: Path | str, *words: str | Path, cwd: Path = ROOT) -> str:
    command = [str(program), *map(str, words)]
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise FailedError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def render(folder: Path, chart: Path, *words: str | Path) -> Path:
    file = folder / f"{chart.name}.yaml"
    file.write_text(run(helm(), "template", "holdfast", chart, "--namespace", NAMESPACE, *words))
    return file


# --- Schemas ------------------------------------------------------------------------------------------


def write_schemas(folder: Path) -> None:
    """One JSON Schema for each kind, that refuses unknown fields."""
    swagger = json.loads((go_module("k8s.io/kubernetes") / "api/openapi-spec/swagger.json").read_text())
    definitions = {name: strict(schema) for name, schema in swagger["definitions"].items()}
    definitions[QUANTITY] = {"type": ["string", "number"]}  # published as a string; the API server takes both
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            if kind["kind"] in KINDS:
                found = {"$ref": f"#/definitions/{name}", "definitions": definitions}
                _write(folder, kind["kind"], kind["group"], kind["version"], found)
    crds = go_module(OPERATOR) / "example/prometheus-operator-crd"
    for name in ("servicemonitors", "prometheusrules"):
        crd = yaml.safe_load((crds / f"monitoring.coreos.com_{name}.yaml").read_text())["spec"]
        for version in crd["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object"}
            _write(folder, crd["names"]["kind"], crd["group"], version["name"], strict(schema))


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, which refuses unknown fields, and with the types that Kubernetes means."""
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {key: value for key, value in schema.items() if key != "format"}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = strict(found[key])
    for key in ("properties", "definitions"):
        if key in found:
            found[key] = {name: strict(inner) for name, inner in found[key].items()}
    if "properties" in found and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


def _write(folder: Path, kind: str, group: str, version: str, schema: dict[str, Any]) -> None:
    name = f"{kind}-{group or version}-{version}.json"  # kubeconform calls the group of v1 `v1`
    (folder / name.lower()).write_text(json.dumps(schema))


def go_module(name: str, required_by: str = "control-plane") -> Path:
    """The folder of a Go module: of the version in its name, or of the one that a module in peers/ requires."""
    go = shutil.which("go")
    if go is None:
        raise MissingToolError("go is not on PATH; the published schemas are in Go modules")
    download = json.loads(run(go, "mod", "download", "-json", name, cwd=build_peers.PEERS / required_by))
    return Path(download["Dir"])


if __name__ == "__main__":
    sys.exit(main())
