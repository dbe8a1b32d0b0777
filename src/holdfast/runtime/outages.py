"""One line when an endpoint stops answering, one a minute while it does not, one when it answers again.

Callers: the adapters of Kubernetes and AWS, once an endpoint each, about every request. During an outage every reconcile
fails with a text of its own; those lines are logged at debug level, and these are the ones that an operator reads.
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
        self._is_known = False  # whether the beginning of this outage was logged

    def failed(self, error: object) -> None:
        """A request got no answer."""
        now_s = self._clock.monotonic_s()
        if self._began_s is None:
            self._began_s, self._failures, self._is_known = now_s, 0, False
        self._failures += 1
        if now_s - self._logged_s < _EVERY_S:
            return  # also where single requests fail again and again: a line a minute
        event = "still not answering" if self._is_known else "not answering"
        self._logged_s, self._is_known = now_s, True
        self._log.warning(
            event, error=str(error), seconds=round(now_s - self._began_s), failures=self._failures
        )

    def answered(self) -> None:
        if self._began_s is None:
            return
        if self._is_known:
            seconds = round(self._clock.monotonic_s() - self._began_s)
            self._log.info("answering again", seconds=seconds, failures=self._failures)
        self._began_s = None
