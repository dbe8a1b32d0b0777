"""Configures the log: JSON lines, or text on a terminal.

A JSON line starts with `time`, `level`, `message`, `controller` and `object`. The time comes from the Clock port, so the
log of a simulation is the same on each run.
"""

import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import structlog

from holdfast.ports import Clock

Level = Literal["debug", "info", "warning", "error"]

_FIRST: Final = ("time", "level", "message", "controller", "object")
_MAX_FRAMES: Final = 30
LEVELS: Final[Mapping[Level, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(
    *, clock: Clock, level: Level = "info", as_json: bool | None = None, to: TextIO | None = None
) -> None:
    """Writes lines of that level and above to a file or to standard error; standard output is for the command's result."""
    stream = to if to is not None else sys.stderr

    def add_time(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        line["time"] = datetime.fromtimestamp(clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return line

    is_json = as_json if as_json is not None else not stream.isatty()
    # Tracebacks show no local values: a snapshot is megabytes of text, and a credential may be a local value.
    text = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=_MAX_FRAMES)
    json = [
        structlog.processors.ExceptionRenderer(frames),
        structlog.processors.EventRenamer("message"),
        _order_keys,
        structlog.processors.JSONRenderer(sort_keys=False),
    ]
    renderers: list[Any] = json if is_json else [text]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            add_time,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def _order_keys(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: line[key] for key in _FIRST if key in line} | dict(line)
