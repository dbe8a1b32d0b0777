"""How much memory nodes of a type really have, learned from those that came up.

Called by `discovery`. What EC2 lists is more than a node sees, by an amount that depends on type and image and
that only a node can tell. The rule (aws-7.3.2): the least that was seen with the images of a class takes the
place of the estimate; other images, or sixty days without a node, and it is estimated again.
"""

from typing import Final

TTL_S: Final = 60 * 86_400.0

Images = frozenset[str]


class ObservedMemory:
    def __init__(self) -> None:
        self._bytes: dict[tuple[str, Images], tuple[int, float]] = {}  # and when it was last seen

    def learn(self, instance_type: str, images: Images, memory_bytes: int, now_s: float) -> None:
        self._forget(now_s)
        known, _ = self._bytes.get((instance_type, images), (memory_bytes, now_s))
        self._bytes[instance_type, images] = (min(known, memory_bytes), now_s)

    def of(self, images: Images, now_s: float) -> dict[str, int]:
        """By type."""
        self._forget(now_s)
        return {name: memory_bytes for (name, on), (memory_bytes, _) in self._bytes.items() if on == images}

    def _forget(self, now_s: float) -> None:
        self._bytes = {key: entry for key, entry in self._bytes.items() if now_s - entry[1] < TTL_S}
