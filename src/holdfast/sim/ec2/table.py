"""The entities of one kind by id, with older versions for stale reads.

Part of `region_state`. A change stores a new value under the same id, so that older values can be read until the
history is cut off. A deleted id is never used again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

HISTORY_S: Final = 600  # how far back a stale read can go


class Named(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Named)


class Table(Generic[T]):
    def __init__(self, now_s: Callable[[], int], changed: Callable[[str, T | None, T | None], None]) -> None:
        self._now_s = now_s
        self._changed = changed  # called with the id, the old entry and the new entry
        self._values: dict[str, T] = {}
        self._versions: dict[str, list[tuple[int, T | None]]] = {}
        self._dropped: deque[tuple[int, str]] = deque()  # deleted ids and when, oldest first

    def put(self, value: T) -> T:
        before = self._values.get(value.id)
        self._values[value.id] = value
        self._remember(value.id, before, value)
        return value

    def drop(self, key: str) -> None:
        self._remember(key, self._values.pop(key), None)

    def get(self, key: str) -> T | None:
        return self._values.get(key)

    def __getitem__(self, key: str) -> T:
        return self._values[key]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T]:
        """In the order of creation. The list is a copy: the table may be changed meanwhile."""
        return iter(tuple(self._values.values()))

    def as_of(self, moment_s: int) -> Iterator[T]:
        """The entities at an earlier time, sorted by id."""
        for key in sorted(self._versions):
            then = [value for since_s, value in self._versions[key] if since_s <= moment_s]
            if then and then[-1] is not None:
                yield then[-1]

    def _remember(self, key: str, before: T | None, value: T | None) -> None:
        now_s = self._now_s()
        versions = self._versions.setdefault(key, [])
        versions.append((now_s, value))
        while len(versions) > 1 and versions[1][0] <= now_s - HISTORY_S:
            del versions[0]
        if value is None:
            self._dropped.append((now_s, key))
        while self._dropped and self._dropped[0][0] <= now_s - HISTORY_S:
            self._versions.pop(self._dropped.popleft()[1], None)
        self._changed(key, before, value)
