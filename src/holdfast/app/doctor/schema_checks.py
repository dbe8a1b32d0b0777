"""Whether the API server serves the kinds that Holdfast needs, with every field that Holdfast ships, and whether the
CRDs of Holdfast can be installed. Pure.

Called by `diagnosis`. Fields and the values of enumerations are compared; patterns, bounds and CEL rules are not: those
of Karpenter's CRDs differ in wording and accept the same objects (docs/crds.md). A field that is not in the schema is
dropped by the API server when an object is written. So a missing field that Holdfast writes is an error, and one that
only users write is a warning.

The API server refuses a CRD without a version that is in `status.storedVersions`: an object could be stored in it. The
CRDs of Holdfast have v1 alone, and those of Karpenter had v1beta1 until 1.1 (docs/install.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api import aws, crds
from holdfast.api.discovery import CustomResourceDefinition, Schema
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.app.doctor.cluster_reading import ClusterReading, KindReading
from holdfast.model import check_results, wording
from holdfast.model.check_results import CheckResult

CHECK: Final = "crds"
APPLY: Final = "kubectl apply --server-side --force-conflicts -f charts/holdfast/crds"
DELETED_FIRST: Final = "docs/install.md#if-the-crds-are-deleted-first"
_STATUS: Final = ".status"
_SHOWN_MAX: Final = 12
_METADATA: Final = frozenset({"apiVersion", "kind", "metadata"})  # the API server's own


def results(reading: ClusterReading) -> Iterator[CheckResult]:
    shipped = {one["metadata"]["name"]: one for one in crds.all_crds()}
    unread = []
    for kind, found in reading.kinds.items():
        yield from _kind(kind, shipped[f"{kind.plural}.{kind.api_version.partition('/')[0]}"], found)
        if isinstance(found.definition, errors.HoldfastError):
            unread.append(found.definition)
    if unread:
        words = f"stored versions and deletion are not checked: {unread[0]}"
        yield check_results.info(CHECK, "CustomResourceDefinitions", words)


def _kind(kind: type[Object], crd: Mapping[str, Any], found: KindReading) -> Iterator[CheckResult]:
    about, version = f"CustomResourceDefinition/{crd['metadata']['name']}", kind.api_version.partition("/")[2]
    definition = found.definition if isinstance(found.definition, CustomResourceDefinition) else None
    for read in (found.versions, found.schema):
        if isinstance(read, errors.HoldfastError):
            yield check_results.error(
                CHECK,
                about,
                f"cannot be read: {read}",
                "allow GET on /apis and /openapi/v3 (system:discovery)",
            )
            return
    assert not isinstance(found.versions, errors.HoldfastError)
    assert not isinstance(found.schema, errors.HoldfastError)
    if found.schema is None:
        served = f"{version} is not served, only {', '.join(found.versions)}"
        why = served if found.versions and version not in found.versions else "does not exist"
        fix = _migration(kind, definition, version) if definition else ""
        yield check_results.error(CHECK, about, why, fix or _apply(kind))
        return
    if definition:
        yield from _defined(kind, about, definition, version)
    yield from _compared(kind, about, missing(_schema(crd), found.schema))


def _apply(kind: type[Object]) -> str:
    """Beside Karpenter, its CRDs stay as they are."""
    group = kind.api_version.partition("/")[0]
    return f"{APPLY}/{group}_{kind.plural}.yaml" if group == aws.HOLDFAST_GROUP else APPLY


def _defined(
    kind: type[Object], about: str, definition: CustomResourceDefinition, version: str
) -> Iterator[CheckResult]:
    if definition.metadata.deletion_timestamp is not None:
        words = (
            "is being deleted, with all its objects; Holdfast terminates the instances of deleted NodeClaims"
        )
        yield check_results.error(CHECK, about, words, f"a deletion cannot be cancelled: {DELETED_FIRST}")
    if fix := _migration(kind, definition, version):
        others = [one for one in definition.status.stored_versions if one != version]
        words = f"status.storedVersions has {', '.join(others)}: the API server refuses the CRD of Holdfast"
        yield check_results.error(CHECK, about, words, fix)


def _migration(kind: type[Object], definition: CustomResourceDefinition, version: str) -> str:
    """The fix, if objects may be stored in other versions; else empty."""
    if set(definition.status.stored_versions) <= {version}:
        return ""
    if not any(one.name == version and one.storage for one in definition.spec.versions):
        return f"upgrade Karpenter to 1.0.6 or newer first: objects have to be converted to {version}"
    group, name = kind.api_version.partition("/")[0], definition.metadata.name
    status = f'{{"status":{{"storedVersions":["{version}"]}}}}'
    return (
        f"while Karpenter runs: kubectl get {kind.plural}.{version}.{group} -o json | kubectl replace -f - "
        f"&& kubectl patch crd {name} --subresource=status --type=merge -p '{status}'"
    )


def _compared(kind: type[Object], about: str, gaps: Sequence[str]) -> Iterator[CheckResult]:
    if not gaps:
        yield check_results.ok(CHECK, about, f"serves {kind.api_version} with all fields")
        return
    written = [gap for gap in gaps if kind is NodeClaim or gap.startswith(_STATUS)]
    for paths, words, result in (
        (written, "the API server drops what Holdfast writes to", check_results.error),
        (
            [gap for gap in gaps if gap not in written],
            "is older than Holdfast: it lacks",
            check_results.warning,
        ),
    ):
        if paths:
            listed = wording.listed(paths, shown=_SHOWN_MAX)
            yield result(CHECK, about, f"{words} {listed}", _apply(kind))


def missing(shipped: Schema, served: Schema, path: str = "") -> tuple[str, ...]:
    """The paths that only the shipped schema has; a path ends with `=value` for a value of an enumeration. A missing
    object is named without the fields in it."""
    if served.preserves_unknown:
        return ()
    found: list[str] = []
    for name, child in sorted(shipped.properties.items()):
        if not path and name in _METADATA:
            continue
        there = served.properties.get(name)
        found += [f"{path}.{name}"] if there is None else missing(child, there, f"{path}.{name}")
    for step, ours, theirs in (
        ("[]", shipped.items, served.items),
        (".*", shipped.additional_properties, served.additional_properties),
    ):
        if isinstance(ours, Schema) and isinstance(theirs, Schema):
            found += missing(ours, theirs, f"{path}{step}")
    if served.enum:
        found += [f"{path}={value}" for value in shipped.enum if value not in served.enum]
    return tuple(found)


def _schema(crd: Mapping[str, Any]) -> Schema:
    return msgspec.convert(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], Schema)
