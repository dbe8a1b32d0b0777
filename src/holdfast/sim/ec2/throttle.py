"""EC2's token buckets: one for each account and operation, sized by the kind of operation.

A call costs a token. Launching and terminating also cost a token of a second bucket for each instance. Without tokens
the call returns RequestLimitExceeded and has no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.sim.aws.errors import ApiError


@dataclass(frozen=True, slots=True)
class Bucket:
    size: int
    refill_per_s: int


READS: Final = Bucket(100, 20)
WHOLE_READS: Final = Bucket(50, 10)  # for reads without a filter, an id or a page size
WRITES: Final = Bucket(50, 5)
REQUESTS: Final[Mapping[str, Bucket]] = {"CreateTags": Bucket(100, 10), "RunInstances": Bucket(5, 2)}
RESOURCES: Final[Mapping[str, Bucket]] = {
    "RunInstances": Bucket(1000, 2),
    "TerminateInstances": Bucket(1000, 20),
}
_NARROWING: Final = ("Filters", "MaxResults", "NextToken")


@dataclass(slots=True)
class Throttle:
    on: bool = True
    _levels: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def charge(self, account: str, operation: str, params: Mapping[str, Any], now_s: int) -> None:
        if not self.on:
            return
        name, bucket = _bucket(operation, params)
        self._take(account, name, bucket, 1, now_s)
        if operation in RESOURCES:
            count = len(params.get("InstanceIds", ())) or params.get("MaxCount", 1)
            self._take(account, f"{operation}/resources", RESOURCES[operation], count, now_s)

    def _take(self, account: str, name: str, bucket: Bucket, count: int, now_s: int) -> None:
        level, at_s = self._levels.get((account, name), (bucket.size, now_s))
        level = min(bucket.size, level + bucket.refill_per_s * max(0, now_s - at_s))
        enough = level >= count
        self._levels[account, name] = (level - count if enough else level, now_s)
        if not enough:
            raise limit_exceeded()


def limit_exceeded() -> ApiError:
    return ApiError("RequestLimitExceeded", "Request limit exceeded.", status=503)


def _bucket(operation: str, params: Mapping[str, Any]) -> tuple[str, Bucket]:
    if operation in REQUESTS:
        return operation, REQUESTS[operation]
    if not operation.startswith(("Describe", "Get")):
        return operation, WRITES
    narrowed = any(name in _NARROWING or name.endswith(("Ids", "Names", "Id")) for name in params)
    return (operation, READS) if narrowed else (f"{operation}/whole", WHOLE_READS)
