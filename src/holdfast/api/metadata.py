"""Validates the metadata of any object like the API server: names, labels, annotations.

CRDs cannot describe metadata, so `validation` uses this module.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.api import patterns
from holdfast.api.findings import Finding, Path, of_decoding_error
from holdfast.api.meta import ObjectMeta

_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE: Final = re.compile(patterns.LABEL_VALUE)
_LABEL_KEY: Final = re.compile(patterns.QUALIFIED_NAME)
_MAX_NAME: Final = 253
_MAX_LABEL: Final = 63


def findings(obj: dict[str, Any], *, namespaced: bool) -> Iterator[Finding]:
    """Mistakes in an object's metadata."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        yield Finding(("metadata",), "required: a mapping with at least a name")
        return
    found = [*_name(metadata), *_namespace(metadata, namespaced=namespaced)]
    found += [*_texts(metadata, "annotations"), *_texts(metadata, "labels")]
    found += labels(metadata.get("labels"), ("metadata", "labels"))
    yield from found or _types(metadata)


def labels(value: Any, path: Path) -> Iterator[Finding]:
    """Mistakes in the syntax of labels whose keys and values are strings."""
    if not isinstance(value, dict):
        return
    for key, text in value.items():
        if not _is_label_key(key):
            yield Finding((*path, key), f"the key of a label is {patterns.WORDS[patterns.QUALIFIED_NAME]}")
        if isinstance(text, str) and not is_label_value(text):
            yield Finding(
                (*path, key), f"the value of a label is {patterns.WORDS[patterns.LABEL_VALUE]}, at most 63"
            )


def is_label_value(text: str) -> bool:
    return len(text) <= _MAX_LABEL and _LABEL_VALUE.fullmatch(text) is not None


def _is_label_key(key: str) -> bool:
    domain, _, name = key.rpartition("/")
    return len(name) <= _MAX_LABEL and len(domain) <= _MAX_NAME and _LABEL_KEY.fullmatch(key) is not None


def _name(metadata: dict[str, Any]) -> Iterator[Finding]:
    name = metadata.get("name")
    if not name and not metadata.get("generateName"):
        yield Finding(("metadata", "name"), "Required value")
    elif name and not (isinstance(name, str) and len(name) <= _MAX_NAME and _DNS_SUBDOMAIN.fullmatch(name)):
        yield Finding(
            ("metadata", "name"), "a name is lower-case letters, digits, '-' and '.', at most 253 characters"
        )


def _namespace(metadata: dict[str, Any], *, namespaced: bool) -> Iterator[Finding]:
    if metadata.get("namespace") and not namespaced:
        yield Finding(
            ("metadata", "namespace"), "this kind belongs to the whole cluster; leave the namespace out"
        )


def _types(metadata: dict[str, Any]) -> Iterator[Finding]:
    """Mistakes in the types of all other fields, found by decoding."""
    given = {name: value for name, value in metadata.items() if value is not None}
    try:
        msgspec.convert(given, ObjectMeta)
    except msgspec.ValidationError as error:
        yield of_decoding_error(str(error), ("metadata",))


def _texts(metadata: dict[str, Any], field: str) -> Iterator[Finding]:
    value = metadata.get(field)
    if value is None:
        return
    if not isinstance(value, dict):
        yield Finding(("metadata", field), "must be a mapping")
        return
    for key, text in value.items():
        if not isinstance(text, str):
            yield Finding(("metadata", field, key), "must be text; write it in quotes")
