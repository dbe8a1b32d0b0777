"""Caches the memory that registered nodes report, by instance type and images.

Called by `discovery`. EC2 lists more memory than a node has; the difference depends on the instance type and the image,
and only a node reports it. The least memory that a node with the images of a class reported replaces the estimate
(aws-7.3.2). With other images, or after sixty days without a new node, the estimate is used again.
"""

from typing import Final

TTL_S: Final = 60 * 86_400.0

Images = frozenset[str]


class ObservedMemory:
    def __init__(self) -> None:
        self._bytes: dict[tuple[str, Images], tuple[int, float]] = {}  # bytes, and when a node last reported

    def record(self, instance_type: str, images: Images, memory_bytes: int, now_s: float) -> None:
        self._remove_expired(now_s)
        known, _ = self._bytes.get((instance_type, images), (memory_bytes, now_s))
        self._bytes[instance_type, images] = (min(known, memory_bytes), now_s)

    def of(self, images: Images, now_s: float) -> dict[str, int]:
        """Memory in bytes, by type."""
        self._remove_expired(now_s)
        return {name: memory_bytes for (name, on), (memory_bytes, _) in self._bytes.items() if on == images}

    def _remove_expired(self, now_s: float) -> None:
        self._bytes = {key: entry for key, entry in self._bytes.items() if now_s - entry[1] < TTL_S}
