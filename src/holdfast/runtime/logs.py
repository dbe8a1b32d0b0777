"""How log lines look: a constant event, then keys and values; JSON unless a person reads along.

Callers: `app`, once. The time of a line comes from the Clock door, so the log of a simulated day replays too.
"""

import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import structlog

from holdfast.ports import Clock

Level = Literal["debug", "info", "warning", "error"]

_MOST_FRAMES: Final = 30
LEVELS: Final[Mapping[Level, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(
    *, clock: Clock, level: Level = "info", as_json: bool | None = None, to: TextIO | None = None
) -> None:
    """Lines of that level and above go to standard error, away from what a command prints for its user, or to a file."""
    stream = to if to is not None else sys.stderr

    def add_time(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        line["time"] = datetime.fromtimestamp(clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return line

    is_json = as_json if as_json is not None else not stream.isatty()
    # Tracebacks show no local values: a snapshot is megabytes of text, and a credential is a local value, too.
    plain = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=_MOST_FRAMES)
    shape: list[Any] = (
        [structlog.processors.ExceptionRenderer(frames), structlog.processors.JSONRenderer(sort_keys=False)]
        if is_json
        else [plain]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            add_time,
            *shape,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
