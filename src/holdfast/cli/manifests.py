"""Reads manifests from files, folders or standard input.

A mistake in a file, a document or an object becomes a `Located` finding with file and line; the rest is still read.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.api import documents, kinds, metadata, scenario_schema, validation
from holdfast.api.findings import Finding, of_decoding_error, text_of
from holdfast.api.meta import Object

_ENDINGS: Final = (".yaml", ".yml", ".json")
_SUCCESSORS: Final = {
    "Provisioner": "use a NodePool (karpenter.sh/v1)",
    "AWSNodeTemplate": "use an EC2NodeClass (karpenter.k8s.aws/v1)",
    "NodeOverlay": "it is not supported",
    "CapacityBuffer": "it is not supported",
}


@dataclass(frozen=True, slots=True)
class Located:
    """A finding with its file and line, in the format that editors understand."""

    file: str
    line: int
    name: str  # kind and name of the object, where there is one
    path: str  # the field, where there is one
    message: str

    def __str__(self) -> str:
        parts = (f"{self.file}:{self.line}", self.name, self.path, self.message)
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Loaded:
    """An object that is valid by itself."""

    file: str
    document: documents.Document
    obj: Object

    @property
    def name(self) -> str:
        return _name(self.document.value)

    def located(self, finding: Finding) -> Located:
        return _located(self.file, self.document, finding)


@dataclass(frozen=True, slots=True)
class Manifests:
    objects: tuple[Loaded, ...]
    findings: tuple[Located, ...]


def read(paths: Sequence[str], *, ignore_unknown_kinds: bool = False) -> Manifests:
    """Everything under the paths, sorted by file name within a folder."""
    return _collected(
        item
        for path in paths
        for file, data in _files(path)
        for item in _read(file, data, ignore_unknown_kinds=ignore_unknown_kinds)
    )


@dataclass(frozen=True, slots=True)
class Raw:
    """An object of any kind as written, not validated: the API server of the sandbox does that."""

    file: str
    document: documents.Document

    @property
    def gvk(self) -> tuple[str, str]:
        return _gvk(self.document.value)

    def located(self, finding: Finding) -> Located:
        return _located(self.file, self.document, finding)


def read_raw(paths: Sequence[str]) -> tuple[tuple[Raw, ...], tuple[Located, ...]]:
    """Every object under the paths, and a finding for each document that is not an object."""
    objects: list[Raw] = []
    findings: list[Located] = []
    for path in paths:
        for file, data in _files(path):
            if isinstance(data, str):
                findings.append(Located(file, 1, "", "", data))
                continue
            for document in documents.read(data):
                if isinstance(document, documents.Broken):
                    findings.append(Located(file, document.line, "", "", document.message))
                elif not all(_gvk(document.value)):
                    findings.append(_located(file, document, _unknown(document.value)))
                else:
                    objects.append(Raw(file, document))
    return tuple(objects), tuple(findings)


def load(raw: Raw, kind: type[Object]) -> Loaded | tuple[Located, ...]:
    """The object, or what is wrong with it as one of that kind."""
    problems = _problems(raw.document.value, kind)
    if problems:
        return tuple(raw.located(problem) for problem in problems)
    return Loaded(raw.file, raw.document, kinds.from_plain(raw.document.value, kind))


def parse(file: str, data: bytes) -> Manifests:
    """The objects in one text; `file` is its name in findings."""
    return _collected(_read(file, data, ignore_unknown_kinds=False))


def _collected(items: Iterable[Loaded | Located]) -> Manifests:
    objects: list[Loaded] = []
    findings: list[Located] = []
    for item in items:
        objects.append(item) if isinstance(item, Loaded) else findings.append(item)
    findings += _twice(objects)
    return Manifests(tuple(objects), tuple(findings))


def _read(file: str, data: bytes | str, *, ignore_unknown_kinds: bool) -> Iterator[Loaded | Located]:
    if isinstance(data, str):
        yield Located(file, 1, "", "", data)
    else:
        yield from _objects(file, data, ignore_unknown_kinds=ignore_unknown_kinds)


def _files(path: str) -> Iterator[tuple[str, bytes | str]]:
    """Each file with its bytes, or with the reason why it cannot be read."""
    if path == "-":
        yield "<stdin>", sys.stdin.buffer.read(documents.MAX_BYTES + 1)
        return
    root = Path(path)
    if not path:  # most likely an unset shell variable; it must not mean the current folder
        yield "''", "no file name was given"
    elif root.is_dir():
        found = sorted(file for file in root.rglob("*") if file.suffix in _ENDINGS and file.is_file())
        if not found:
            yield path, f"no files here that end in {', '.join(_ENDINGS)}"
        for file in found:
            yield str(file), _bytes(file)
    else:
        yield path, _bytes(root)


def _bytes(file: Path) -> bytes | str:
    try:
        with file.open("rb") as stream:
            return stream.read(documents.MAX_BYTES + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _objects(file: str, data: bytes, *, ignore_unknown_kinds: bool) -> Iterator[Loaded | Located]:
    for document in documents.read(data):
        if isinstance(document, documents.Broken):
            yield Located(file, document.line, "", "", document.message)
            continue
        kind = kinds.IN_FILES.get(_gvk(document.value))
        if kind is None:
            problem = _unknown(document.value)
            if not (ignore_unknown_kinds and problem.path == ("kind",)):
                yield _located(file, document, problem)
            continue
        found = load(Raw(file, document), kind)
        if isinstance(found, Loaded):
            yield found
        else:
            yield from found


def _problems(value: dict[str, Any], kind: type[Object]) -> list[Finding]:
    if kind in scenario_schema.KINDS:
        return scenario_schema.findings(value, kind)
    validator = validation.validators().get((kind.api_version, kind.kind))
    if validator is not None:
        return validator.findings(value)
    found = list(metadata.findings(value, namespaced=kind.namespaced))
    if found:
        return found
    try:
        kinds.from_plain(value, kind)
    except msgspec.ValidationError as error:
        return [of_decoding_error(str(error))]
    return []


def _unknown(value: Any) -> Finding:
    """Why this is not an object of a known kind. With the path `kind` the object is well-formed, of an unknown kind."""
    if not isinstance(value, dict):
        return Finding(
            (), "not a Kubernetes object: a mapping with apiVersion, kind and metadata is expected"
        )
    version, kind = _gvk(value)
    missing = [name for name, given in (("apiVersion", version), ("kind", kind)) if not given]
    if missing:
        return Finding((missing[0],), "Required value")
    if kind in _SUCCESSORS:
        return Finding(("apiVersion",), f"{kind} is not a kind that Holdfast reads: {_SUCCESSORS[kind]}")
    same_kind = sorted(api_version for api_version, name in kinds.IN_FILES if name == kind)
    if same_kind:
        return Finding(("apiVersion",), f"{kind} of {version} is not known; write {' or '.join(same_kind)}")
    return Finding(("kind",), f"{kind} of {version} is not a kind that Holdfast reads")


def _twice(objects: Sequence[Loaded]) -> Iterator[Located]:
    first: dict[tuple[str, str, str], Loaded] = {}
    for item in objects:
        meta = item.obj.metadata
        key = (item.obj.kind, meta.namespace, meta.name)
        if meta.name and key in first:
            other = first[key]
            yield item.located(
                Finding(("metadata", "name"), f"defined before, in {other.file}:{other.document.line}")
            )
        first.setdefault(key, item)


def _located(file: str, document: documents.Document, finding: Finding) -> Located:
    path = text_of(finding.path) if finding.path else ""
    line = document.line_of(finding.path)
    return Located(file, line, _name(document.value), path, finding.message)


def _gvk(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        return "", ""
    version, kind = value.get("apiVersion"), value.get("kind")
    return version if isinstance(version, str) else "", kind if isinstance(kind, str) else ""


def _name(value: Any) -> str:
    _, kind = _gvk(value)
    meta = value.get("metadata") if isinstance(value, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return f"{kind}/{name}" if kind and isinstance(name, str) else kind
