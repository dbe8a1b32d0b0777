"""Limits the rate of AWS calls: a token bucket for each family of operations.

Called by `calls`. EC2 has such buckets for each account and region, and every client in the account uses them. These
are smaller, so that a busy cluster leaves tokens for other clusters of the account. Calls wait for tokens in order.
"""

from typing import Final

# Tokens per second, and burst. EC2's own are 20 and 100 for reads, 5 and 50 for most writes.
_EC2_READS: Final = (15.0, 50)
_EC2_WRITES: Final = (4.0, 40)
_EC2_ALONE: Final = {  # EC2 has separate buckets for these
    "CreateFleet": (4.0, 40),
    "TerminateInstances": (4.0, 80),
    "CreateTags": (8.0, 80),
}
_OTHERS: Final = (5.0, 20)
_QUEUES: Final = (50.0, 100)
_READS: Final = ("Describe", "Get", "List")


class Bucket:
    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._at_s: float | None = None

    def take(self, now_s: float) -> float:
        """Takes a token and returns the seconds until it is available."""
        if self._at_s is not None:
            earned = max(0.0, now_s - self._at_s) * self._per_second
            self._tokens = min(float(self._burst), self._tokens + earned)
        self._at_s = now_s
        self._tokens -= 1
        return max(0.0, -self._tokens / self._per_second)


class Rates:
    """All buckets of one account and region."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def take(self, service: str, operation: str, now_s: float) -> float:
        """Takes a token and returns the seconds to wait before the call."""
        family, limit = _family(service, operation)
        bucket = self._buckets.get((service, family))
        if bucket is None:
            bucket = self._buckets[service, family] = Bucket(*limit)
        return bucket.take(now_s)


def _family(service: str, operation: str) -> tuple[str, tuple[float, int]]:
    if service == "sqs":
        return "", _QUEUES
    if service != "ec2":
        return "", _OTHERS
    if operation in _EC2_ALONE:
        return operation, _EC2_ALONE[operation]
    return ("reads", _EC2_READS) if operation.startswith(_READS) else ("writes", _EC2_WRITES)
