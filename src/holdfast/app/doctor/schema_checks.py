"""Whether the API server serves the kinds that Holdfast needs, with every field that Holdfast ships. Pure.

Called by `diagnosis`. Fields and the values of enumerations are compared; patterns, bounds and CEL rules are not: those
of Karpenter's CRDs differ in wording and accept the same objects (docs/crds.md). A field that is not in the schema is
dropped by the API server when an object is written. So a missing field that Holdfast writes is an error, and one that
only users write is a warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api import aws, crds
from holdfast.api.discovery import Schema
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.app.doctor.cluster_reading import ClusterReading, KindReading
from holdfast.model import check_results, wording
from holdfast.model.check_results import CheckResult

CHECK: Final = "crds"
APPLY: Final = "kubectl apply --server-side --force-conflicts -f charts/holdfast/crds"
_STATUS: Final = ".status"
_SHOWN_MAX: Final = 12
_METADATA: Final = frozenset({"apiVersion", "kind", "metadata"})  # the API server's own


def results(reading: ClusterReading) -> Iterator[CheckResult]:
    shipped = {one["metadata"]["name"]: one for one in crds.all_crds()}
    for kind, found in reading.kinds.items():
        yield from _kind(kind, shipped[f"{kind.plural}.{kind.api_version.partition('/')[0]}"], found)


def _kind(kind: type[Object], crd: Mapping[str, Any], found: KindReading) -> Iterator[CheckResult]:
    about, version = f"CustomResourceDefinition/{crd['metadata']['name']}", kind.api_version.partition("/")[2]
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
        yield check_results.error(CHECK, about, why, _apply(kind))
        return
    yield from _compared(kind, about, missing(_schema(crd), found.schema))


def _apply(kind: type[Object]) -> str:
    """Beside Karpenter, its CRDs stay as they are."""
    group = kind.api_version.partition("/")[0]
    return f"{APPLY}/{group}_{kind.plural}.yaml" if group == aws.HOLDFAST_GROUP else APPLY


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
