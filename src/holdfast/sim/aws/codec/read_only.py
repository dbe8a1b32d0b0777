"""Dicts and lists that cannot be changed: results that several callers share.

`shapes` makes them from an `Unchanging` structure of a service. They are equal to an ordinary dict or list with the same
content, and are hashable, as values that cannot change are.
"""

from typing import Any, NoReturn


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"this {type(self).__name__} is shared and cannot be changed")


class ReadOnlyDict(dict[str, Any]):
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return dict, (dict(self),)  # a copy can be changed


class ReadOnlyList(list[Any]):
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return list, (list(self),)


def read_only(value: Any) -> Any:
    """The same content, read-only at every level."""
    if isinstance(value, ReadOnlyDict | ReadOnlyList):
        return value
    if isinstance(value, dict):
        return ReadOnlyDict((key, read_only(item)) for key, item in value.items())
    return ReadOnlyList(map(read_only, value)) if isinstance(value, list) else value
