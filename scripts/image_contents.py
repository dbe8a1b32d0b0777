"""Prepares the packages of the image: removes files that Holdfast never reads, and writes the SBOM. Run by the
Dockerfile.

It runs with the Python of the build image, so it imports only the standard library.
"""

import argparse
import importlib.metadata
import json
import shutil
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

SBOM: Final = "sbom.cdx.json"
# The AWS APIs that Holdfast calls, and those that botocore calls for credentials. The others take 25 MiB.
AWS_SERVICES: Final = frozenset(
    {"ec2", "eks", "events", "iam", "pricing", "sqs", "ssm", "sso", "sso-oidc", "sts"}
)
_UNUSED: Final = (
    "bazel-project",
    "numpy/**/tests",
    "numpy/_core/include",
    "numpy/f2py",
    "**/*.pyi",
    "**/*.a",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", required=True, help="of the image")
    parser.add_argument("--time", required=True, type=int, help="of the commit, in seconds since the epoch")
    options = parser.parse_args()
    for path in list(unused(options.folder)):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    document = sbom(options.folder, options.version, options.time)
    (options.folder / SBOM).write_text(text(document), encoding="utf-8")


def unused(folder: Path) -> Iterator[Path]:
    for pattern in _UNUSED:
        yield from folder.glob(pattern)
    for path in (folder / "botocore/data").iterdir():
        if path.is_dir() and path.name not in AWS_SERVICES:
            yield path


def sbom(folder: Path, version: str, time_s: int) -> dict[str, Any]:
    """The packages as a CycloneDX document. Equal packages give equal bytes."""
    packages = sorted(
        (component(found) for found in importlib.metadata.distributions(path=[str(folder)])),
        key=lambda component: str(component["purl"]),
    )
    own = next(component for component in packages if component["name"] == "holdfast")
    others = [component for component in packages if component is not own]
    root = {**own, "type": "application", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([root, others], sort_keys=True))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z"),
            "component": root,
        },
        "components": others,
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [component["bom-ref"] for component in others]},
            *({"ref": component["bom-ref"]} for component in others),
        ],
    }


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def component(found: importlib.metadata.Distribution) -> dict[str, Any]:
    name = found.name.lower().replace("_", "-")
    purl = f"pkg:pypi/{name}@{found.version}"
    component: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": found.version,
        "purl": purl,
        "bom-ref": purl,
    }
    metadata = found.metadata
    if expressions := metadata.get_all("License-Expression"):
        component["licenses"] = [{"expression": expressions[0]}]
    elif licences := _licence_names(metadata.get_all("License") or [], metadata.get_all("Classifier") or []):
        component["licenses"] = [{"license": {"name": one}} for one in licences]
    return component


def _licence_names(texts: list[str], classifiers: list[str]) -> list[str]:
    """From the classifiers or, if there are none, from the licence field, which in some packages is the whole text."""
    named = [c.rsplit(" :: ", 1)[-1] for c in classifiers if c.startswith("License :: ")]
    return named or [text for text in texts if "\n" not in text]


if __name__ == "__main__":
    main()
