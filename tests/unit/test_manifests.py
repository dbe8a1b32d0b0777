"""Files, folders and standard input are read into objects and findings with their line; none causes a traceback."""

from pathlib import Path

import pytest
import yaml

from crd_tool import objects
from holdfast.cli import manifests


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def pool(name: str = "general") -> str:
    return yaml.safe_dump(objects.build("NodePool", {"metadata": {"name": name}}), sort_keys=False)


def lines(*paths: str) -> list[str]:
    return [str(finding) for finding in manifests.read(paths).findings]


def names(*paths: str) -> list[str]:
    return [loaded.name for loaded in manifests.read(paths).objects]


def test_a_folder_is_read_recursively_in_name_order(tmp_path: Path) -> None:
    write(tmp_path, "b.yml", pool("b"))
    write(tmp_path, "a.yaml", pool("a"))
    write(tmp_path, "deep/c.json", '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}')
    write(tmp_path, "README.md", "not: [a manifest")
    assert names(str(tmp_path)) == ["NodePool/a", "NodePool/b", "Namespace/c"]


def test_a_folder_without_manifests_is_reported(tmp_path: Path) -> None:
    assert lines(str(tmp_path)) == [f"{tmp_path}:1: no files here that end in .yaml, .yml, .json"]


def test_a_missing_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    missing, existing = str(tmp_path / "missing.yaml"), write(tmp_path, "there.yaml", pool())
    found = manifests.read([missing, existing])
    assert [str(f) for f in found.findings] == [f"{missing}:1: cannot be read: No such file or directory"]
    assert [loaded.name for loaded in found.objects] == ["NodePool/general"]


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.symlink_to(path)  # not even root can open this file
    assert lines(str(path)) == [f"{path}:1: cannot be read: Too many levels of symbolic links"]


def test_an_empty_name_does_not_mean_the_current_folder() -> None:
    assert lines("") == ["'':1: no file name was given"]


def test_one_broken_document_does_not_hide_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", f"a: [1\n---\n{pool('b')}---\nkind: 5\n")
    found = manifests.read([path])
    assert [loaded.name for loaded in found.objects] == ["NodePool/b"]
    assert len(found.findings) == 2


def test_a_finding_names_the_line_the_object_and_the_field(tmp_path: Path) -> None:
    text = pool("b").replace("spec:\n", "spec:\n  weight: 0\n", 1)
    path = write(tmp_path, "a.yaml", f"{pool('a')}---\n{text}")
    line = len(pool("a").splitlines()) + 1 + text.splitlines().index("  weight: 0") + 1
    assert lines(path) == [f"{path}:{line}: NodePool/b: .spec.weight: 0 is less than the minimum of 1"]


def test_a_finding_in_an_item_of_a_list_has_the_item_s_line(tmp_path: Path) -> None:
    text = (
        "# first\n---\napiVersion: v1\nkind: List\nitems:\n"
        "  - {apiVersion: v1, kind: Namespace, metadata: {name: ok}}\n"
        "  - apiVersion: v1\n    kind: Namespace\n    metadata:\n      name: NOT OK\n"
    )
    path = write(tmp_path, "a.yaml", text)
    (line,) = lines(path)
    assert line.startswith(f"{path}:10: Namespace/NOT OK: .metadata.name: ")


def test_a_duplicate_object_is_reported_with_the_first_location(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.yaml", pool()), write(tmp_path, "b.yaml", pool())
    assert lines(first, second) == [
        f"{second}:4: NodePool/general: .metadata.name: defined before, in {first}:1"
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "apiVersion: v1\nkind: ConfigMap\n",
            "2: ConfigMap: .kind: ConfigMap of v1 is not a kind that Holdfast reads",
        ),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\n",
            "1: NodePool: .apiVersion: NodePool of karpenter.sh/v1beta1 is not known; write karpenter.sh/v1",
        ),
        ("kind: NodePool\n", "1: NodePool: .apiVersion: Required value"),
        ("apiVersion: v1\n", "1: .kind: Required value"),
        ("apiVersion: v1\nkind: 5\n", "2: .kind: Required value"),
        (
            "just text\n",
            "1: not a Kubernetes object: a mapping with apiVersion, kind and metadata is expected",
        ),
        (
            "- a list\n",
            "1: not a Kubernetes object: a mapping with apiVersion, kind and metadata is expected",
        ),
        (
            "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\n",
            "1: Provisioner: .apiVersion: Provisioner is not a kind that Holdfast reads: use a NodePool (karpenter.sh/v1)",
        ),
    ],
)
def test_an_unknown_kind_is_reported(tmp_path: Path, text: str, line: str) -> None:
    path = write(tmp_path, "a.yaml", text)
    assert lines(path) == [f"{path}:{line}"]


@pytest.mark.fact("C-10")
@pytest.mark.parametrize(
    ("version", "kind"),
    [("karpenter.sh/v1alpha1", "NodeOverlay"), ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer")],
)
def test_unsupported_karpenter_kinds_are_reported(tmp_path: Path, version: str, kind: str) -> None:
    path = write(tmp_path, "a.yaml", f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    (line,) = lines(path)
    assert line.endswith(f"{kind} is not a kind that Holdfast reads: it is not supported")


def test_unknown_kinds_can_be_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", f"apiVersion: v1\nkind: ConfigMap\n---\n{pool()}---\nkind: x\n")
    found = manifests.read([path], ignore_unknown_kinds=True)
    assert [loaded.name for loaded in found.objects] == ["NodePool/general"]
    assert [f.message for f in found.findings] == ["Required value"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("containers: {}", ".spec.containers: Expected array, got object"),
        ("containers: [{image: x}]", ".spec.containers[0]: Object missing required field name"),
        ("priority: high", ".spec.priority: Expected int | null, got str"),
        ("nodeSelector: {a: 5}", ".spec.nodeSelector['*']: Expected str, got int"),
    ],
)
def test_finding_for_a_wrong_type_in_a_built_in_kind_names_the_field(
    tmp_path: Path, spec: str, line: str
) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  {spec}\n"
    path = write(tmp_path, "a.yaml", text)
    (found,) = lines(path)
    assert found.endswith(line)


@pytest.mark.parametrize(
    "metadata", ["finalizers: x", "uid: 5", "creationTimestamp: soon", "ownerReferences: [{}]", "labels: 5"]
)
@pytest.mark.parametrize("kind", ["karpenter.sh/v1 NodePool", "v1 Pod"])
def test_wrong_metadata_is_a_finding_and_not_a_traceback(tmp_path: Path, kind: str, metadata: str) -> None:
    version, name = kind.split()
    text = f"apiVersion: {version}\nkind: {name}\nmetadata:\n  name: a\n  {metadata}\n"
    assert any(".metadata." in line for line in lines(write(tmp_path, "a.yaml", text)))


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"---\n---\n"])
def test_empty_file_has_no_objects_and_no_findings(tmp_path: Path, content: bytes) -> None:
    found = manifests.read([write(tmp_path, "a.yaml", content)])
    assert (found.objects, found.findings) == ((), ())


@pytest.mark.parametrize("content", [b"\x7fELF\x00\xff", "a: 1".encode("utf-16"), b"\xff" * 100])
def test_file_that_is_not_text_is_one_finding(tmp_path: Path, content: bytes) -> None:
    (line,) = lines(write(tmp_path, "a.yaml", content))
    assert ": not a text file: " in line
