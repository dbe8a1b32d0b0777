"""The contents of the container image: nothing is removed that Holdfast uses, and the SBOM lists every package."""

import importlib.metadata
import json
import re
from pathlib import Path

import pytest

import image_contents

ROOT = Path(__file__).resolve().parents[2]


def test_image_has_the_apis_of_every_aws_action_in_the_policy() -> None:
    policy = json.loads((ROOT / "deploy/iam-policy.json").read_text(encoding="utf-8"))
    actions = [action for one in policy["Statement"] for action in _list(one["Action"])]
    assert {action.split(":")[0] for action in actions} <= image_contents.AWS_SERVICES


def test_other_aws_apis_tests_and_stubs_are_removed(tmp_path: Path) -> None:
    kept = ["botocore/data/ec2/api.json", "botocore/data/endpoints.json", "numpy/core.py", "holdfast/cli.py"]
    removed = ["botocore/data/s3/api.json", "numpy/linalg/tests/test_a.py", "msgspec/__init__.pyi"]
    for name in (*kept, *removed):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    unused = set(image_contents.unused(tmp_path))
    assert [name for name in removed if not {tmp_path / name, *(tmp_path / name).parents} & unused] == []
    assert [name for name in kept if {tmp_path / name, *(tmp_path / name).parents} & unused] == []


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Metadata as pip writes it, in the three forms in which packages state their licence."""
    for name, version, more in (
        ("holdfast", "0.1.0", "License-Expression: Apache-2.0"),
        ("With_Field", "2.0", "License: BSD-3-Clause"),
        (
            "with-classifier",
            "1.0",
            "License: a text\n        of many lines\nClassifier: License :: OSI Approved :: MIT License",
        ),
    ):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{more}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")
    return tmp_path


def test_sbom_lists_every_package_with_its_licence(packages: Path) -> None:
    found = image_contents.sbom(packages, "0.1.0+abc", 1_700_000_000)
    assert {one["purl"]: one["licenses"] for one in found["components"]} == {
        "pkg:pypi/with-classifier@1.0": [{"license": {"name": "MIT License"}}],
        "pkg:pypi/with-field@2.0": [{"license": {"name": "BSD-3-Clause"}}],
    }
    assert found["metadata"]["component"]["version"] == "0.1.0+abc"
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_sbom_of_equal_packages_is_equal_and_of_others_is_not(packages: Path) -> None:
    first, again = (json.dumps(image_contents.sbom(packages, "1", 0)) for _ in range(2))
    assert first == again
    (packages / "holdfast-0.1.0.dist-info/METADATA").write_text(
        "Name: holdfast\nVersion: 0.2.0\n", encoding="utf-8"
    )
    other = image_contents.sbom(packages, "1", 0)["serialNumber"]
    assert other != json.loads(first)["serialNumber"]
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", other)


def test_every_runtime_dependency_states_a_licence() -> None:
    requirements = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8")
    names = set(re.findall(r"^([a-z0-9-]+)==", requirements, re.MULTILINE))
    found = {one.name.lower().replace("_", "-"): one for one in importlib.metadata.distributions()}
    without = [
        name for name in names & found.keys() if "licenses" not in image_contents.component(found[name])
    ]
    assert names & found.keys()
    assert without == []


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
