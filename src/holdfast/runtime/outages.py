"""Logs the outages of an endpoint: one line at the start, one per minute, and one at the end.

The Kubernetes and AWS adapters report every request. During an outage every reconcile fails with its own message, which
is logged at debug level; these lines are for the operator.
"""

from typing import Final

import structlog

from holdfast.ports import Clock

_EVERY_S: Final = 60.0


class Outage:
    def __init__(self, endpoint: str, clock: Clock) -> None:
        self._clock = clock
        self._log = structlog.get_logger().bind(endpoint=endpoint)
        self._began_s: float | None = None  # None: the endpoint answers
        self._logged_s = -_EVERY_S
        self._failures = 0
        self._is_logged = False  # whether this outage was logged

    def failed(self, error: object) -> None:
        """Records a request without a response."""
        now_s = self._clock.monotonic_s()
        if self._began_s is None:
            self._began_s, self._failures, self._is_logged = now_s, 0, False
        self._failures += 1
        if now_s - self._logged_s < _EVERY_S:
            return  # at most one line per minute, also when single requests fail now and then
        message = "endpoint still not responding" if self._is_logged else "endpoint not responding"
        self._logged_s, self._is_logged = now_s, True
        self._log.warning(
            message, error=str(error), seconds=round(now_s - self._began_s), failures=self._failures
        )

    def answered(self) -> None:
        if self._began_s is None:
            return
        if self._is_logged:
            seconds = round(self._clock.monotonic_s() - self._began_s)
            self._log.info("endpoint responding again", seconds=seconds, failures=self._failures)
        self._began_s = None
