"""The versions of node classes that matter to their NodeClaims.

The status of a class has counts, which change with each launch. A version that differs from the one before only in them
counts as the same.
"""

from dataclasses import dataclass

from holdfast.api.meta import Object
from holdfast.api.reservation_slots import differ_only_in_counts


@dataclass(frozen=True, slots=True)
class _Known:
    node_class: Object  # the last version
    version: tuple[str, str]


class ClassVersions:
    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}  # by name of the class

    def of(self, node_class: Object) -> tuple[str, str]:
        """The same for all versions in a row that differ only in counts."""
        meta = node_class.metadata
        known = self._known.get(meta.name)
        if known is not None and known.node_class is node_class:
            return known.version
        same = known is not None and differ_only_in_counts(known.node_class, node_class)
        version = known.version if known is not None and same else (meta.uid, meta.resource_version)
        self._known[meta.name] = _Known(node_class, version)
        return version
