"""EC2's time, from the `Date` headers of its responses. It is compared with EC2's dates only.

The ages of Kubernetes objects never depend on it (docs/adr/0036). This package compares dates of EC2 with `now_s()`.
Values that pass the Cloud port are in the program's time (`to_program_s`, `CapacityReservation.model`).
"""

from typing import Final

import structlog

from holdfast.runtime.clock import IGNORED_S, WARN_FROM_S, ProgramClock, ServerOffset

# EC2 rejects a request whose signature is more than five minutes off, so its clock cannot differ by more while it
# responds.
BOUND_S: Final = 300
_ANSWERS: Final = 5


class Ec2Clock:
    def __init__(self, program: ProgramClock) -> None:
        self._program = program
        self._offset = ServerOffset(program.steady, answers=_ANSWERS)
        self._warned = False
        self.reported_s = 0  # difference of the last response to this process's clock

    @property
    def ahead_s(self) -> int:
        """Seconds that EC2's clock is ahead of the program's time; 0 until several responses agree."""
        if self._offset.adopted_s is None:
            return 0
        ahead_s = self._offset.adopted_s - self._program.offset_s
        return 0 if abs(ahead_s) <= IGNORED_S else ahead_s

    @property
    def offset_s(self) -> int:
        """Seconds that EC2's clock is ahead of this process's clock."""
        return self._program.offset_s + self.ahead_s

    def now_s(self) -> int:
        return self._program.now_s() + self.ahead_s

    def to_program_s(self, date_s: int) -> int:
        """Converts a date of EC2 to the program's time."""
        return date_s - self.ahead_s

    def observe(self, reported_s: int, duration_s: float) -> None:
        """Records the time that EC2 reported in a response that took `duration_s`."""
        self.reported_s = reported_s - self._program.wall.now_s()
        if abs(self.reported_s) > BOUND_S + duration_s:
            self._warn("EC2 reports a time that cannot be true; it is ignored", self.reported_s)
        elif self._offset.observe(reported_s, duration_s) and abs(self.ahead_s) > WARN_FROM_S:
            self._warn(
                "the clock of EC2 differs from the API server's; EC2's dates are converted", self.ahead_s
            )

    def _warn(self, message: str, ahead_s: int) -> None:
        if not self._warned:
            structlog.get_logger().warning(message, ahead_s=ahead_s)
        self._warned = True
