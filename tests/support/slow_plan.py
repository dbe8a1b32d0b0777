"""`holdfast` with a planner that takes much longer than a shutdown may. A test runs this file as a process."""

import structlog

from holdfast import cli
from holdfast.core.scheduling import gangs

_STEPS = 3_000_000_000


def _solve(*_: object, **__: object) -> None:
    structlog.get_logger().info("planning for long")
    for _step in range(_STEPS):
        pass


if __name__ == "__main__":
    gangs.solve = _solve  # type: ignore[assignment]
    cli.main()
