"""Result files: `NAME.result.json`, one for each variant and seed of a study, and the file of its sizing.

Called by `cli.report`. A file that is broken, or of another version, is refused with its name and the reason: a report
must not silently leave a result out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast import errors
from holdfast.api.findings import of_decoding_error, text_of
from holdfast.api.simulation_results import SimulationResult, Sizing, Timeline

T = TypeVar("T")

SUFFIX: Final = ".result.json"
SIZING: Final = "sizing.json"
BYTES_MAX: Final = 256 * 1024 * 1024  # of one file
_NUMBER_MAX: Final = 1e15  # larger numbers cannot be drawn, and no simulation has them
_LATEST_S: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
_SHOWN: Final = 12  # characters of a digest in a message


def text(result: SimulationResult) -> bytes:
    """The content of a result file."""
    head = {"apiVersion": result.api_version, "kind": result.kind}
    return msgspec.json.encode(head | msgspec.to_builtins(result), order="deterministic") + b"\n"


def read(name: str, data: bytes) -> SimulationResult:
    """The result in a file; raises InvalidInput with the name of the file."""
    plain = _plain(name, data)
    _check_version(name, plain)
    result = _converted(name, plain, SimulationResult)
    for problem in _problems(result):
        raise errors.InvalidInput(f"{name}: {problem}")
    return result


def read_sizing(name: str, data: bytes) -> Sizing:
    """The file that `holdfast simulate --size` writes beside the results; raises InvalidInput."""
    sizing = _converted(name, _plain(name, data), Sizing)
    if any(not 0 <= one.begins <= one.ends <= _LATEST_S for one in sizing.results):
        raise errors.InvalidInput(f"{name}: a period must begin before it ends, before the year 10000")
    return sizing


def _plain(name: str, data: bytes) -> Any:
    if len(data) > BYTES_MAX:
        raise errors.InvalidInput(f"{name}: larger than {BYTES_MAX // 1024**2} MiB")
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.InvalidInput(f"{name}: not a whole JSON document: {error}") from error
    if not _is_drawable(plain):
        raise errors.InvalidInput(f"{name}: has a number that is not finite, or larger than 1e15")
    return plain


def _converted(name: str, plain: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        finding = of_decoding_error(str(error))
        raise errors.InvalidInput(f"{name}: {text_of(finding.path)}: {finding.message}") from error


def check_set(results: Mapping[str, SimulationResult], *, mixed: bool) -> None:
    """Refuses results by file name that do not belong into one report."""
    first: dict[str, str] = {}
    for name, result in results.items():
        first.setdefault(result.input, name)
    if len(first) > 1 and not mixed:
        (one, name), (other, other_name) = list(first.items())[:2]
        raise errors.InvalidInput(
            f"{name} and {other_name} are results of different inputs ({one[:_SHOWN]} and {other[:_SHOWN]}), so they do"
            " not compare variants of one study; use another folder, or --mixed"
        )
    known: dict[tuple[str, str, int], str] = {}
    for name, result in results.items():
        key = (result.input, result.variant, result.seed)
        if key in known:
            raise errors.InvalidInput(
                f"{known[key]} and {name} are both results of variant {result.variant}, seed {result.seed};"
                " remove one of them"
            )
        known[key] = name


def _check_version(name: str, plain: Any) -> None:
    if not isinstance(plain, dict) or plain.get("kind") != SimulationResult.kind:
        raise errors.InvalidInput(f"{name}: not a {SimulationResult.kind} of `holdfast simulate`")
    version = plain.get("apiVersion")
    if version != SimulationResult.api_version:
        raise errors.InvalidInput(
            f"{name}: has the format {str(version)[:60]}, and this Holdfast reads {SimulationResult.api_version};"
            " simulate again, or use the Holdfast that wrote it"
        )


def _problems(result: SimulationResult) -> Iterable[str]:
    times = (result.begins, result.until, result.ends)
    if not 0 <= times[0] <= times[1] <= times[2] <= _LATEST_S:
        yield "begins, until and ends must be times in this order, before the year 10000"
    if any(not 0 <= one.begins <= one.ends <= _LATEST_S for one in result.reservations):
        yield "a reservation must begin before it ends, before the year 10000"
    if any(not 0 <= at <= _LATEST_S for at in (*_event_times(result), result.timeline.begins)):
        yield "has a time that is not before the year 10000"
    if result.timeline.step < 1:
        yield ".timeline.step must be at least 1 s"
    if len({len(one) for one in timeline_lists(result.timeline)}) > 1:
        yield ".timeline has lists of different lengths"


def timeline_lists(timeline: Timeline) -> Sequence[Sequence[float]]:
    return (
        timeline.reserved_nodes,
        timeline.on_demand_nodes,
        timeline.spot_nodes,
        timeline.pods_running,
        timeline.pods_waiting,
        timeline.usd_reserved_used,
        timeline.usd_reserved_idle,
        timeline.usd_on_demand,
        timeline.usd_spot,
        *timeline.slots_used.values(),
    )


def _event_times(result: SimulationResult) -> Iterable[int]:
    yield from (one.at for one in result.events)
    yield from (one.since for one in result.unplaced)


def _is_drawable(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_drawable, value.values()))
    if isinstance(value, list):
        return all(map(_is_drawable, value))
    return not isinstance(value, int | float) or (abs(value) <= _NUMBER_MAX and math.isfinite(value))
