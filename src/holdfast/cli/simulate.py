"""`holdfast simulate`: what a cluster would cost, with these reservations and with others."""

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import click
import msgspec

from holdfast import errors
from holdfast.api import documents
from holdfast.api.simulation_results import SimulationResult, Sizing
from holdfast.cli import report, simulate_sizing, studies, whole_files
from holdfast.cli.studies import Mistakes, Variant
from holdfast.runtime.clock import RealClock
from holdfast.simulate import job, sized
from holdfast.simulate.parallel import Failure, Studies
from holdfast.simulate.report import result_files
from holdfast.simulate.study import Study

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_DURATION: Final = re.compile(r"([0-9]+[smh])+")
_INTERRUPTED: Final = 130


def _variants(_ctx: click.Context, _param: click.Parameter, given: Sequence[str]) -> tuple[Variant, ...]:
    found: dict[str, Variant] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not path or not _NAME.fullmatch(name):
            raise click.BadParameter(
                f"{text!r} is not NAME=FILE, with a name of lower-case letters and digits"
            )
        if name in found or name in (studies.BASE, sized.VARIANT):
            raise click.BadParameter(f"the name {name} is used twice, or by Holdfast itself")
        found[name] = Variant(name, path)
    return tuple(found.values())


def _duration(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
    if given and not _DURATION.fullmatch(given):
        raise click.BadParameter(f"{given!r} is not a duration such as 24h or 168h")
    return given


@click.command
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--variant",
    "given",
    multiple=True,
    callback=_variants,
    metavar="NAME=FILE",
    help="Simulate also with the changes in this file. May be repeated.",
)
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Instead of the seed in the files. May be repeated.",
)
@click.option(
    "--for",
    "duration",
    default="",
    callback=_duration,
    metavar="DURATION",
    help="Instead of the duration in the files.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("simulation"),
    show_default=True,
    help="Folder for the results; created if missing.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    default=None,
    help="Simulations at a time.  [default: one for each core]",
)
@click.option(
    "--index",
    type=click.IntRange(0),
    default=None,
    help="Simulate only this one of all variants and seeds, from 0.",
)
@click.option(
    "--size",
    is_flag=True,
    help="Also compute which further slots would have paid for themselves, and simulate with them. Reserves nothing.",
)
@click.option(
    "--emit-job",
    is_flag=True,
    help="Print the study as a Job of Kubernetes, with an index for each variant and seed.",
)
@click.option(
    "--image", default="holdfast", show_default=True, help="With --emit-job: the image of Holdfast."
)
@click.option(
    "--volume-claim",
    default="simulation",
    show_default=True,
    help="With --emit-job: the PersistentVolumeClaim for the results.",
)
@click.option("--namespace", default="default", show_default=True, help="With --emit-job: the namespace.")
def command(
    *, paths: tuple[str, ...], given: tuple[Variant, ...], seeds: tuple[int, ...], duration: str, **how: Any
) -> None:
    """Simulate a cluster for hours or weeks in virtual time, and report what it costs.

    FILEs hold a Simulation, a World (reservations, prices, faults) and the objects of the cluster: NodePools,
    EC2NodeClasses, Deployments, Jobs, CronJobs, DaemonSets. One may be a file of `holdfast snapshot`. The real controllers
    run. Writes a result for each variant and seed, and a report. Calls no API. Ctrl-C ends it with a report of what was simulated until then.
    """
    try:
        found = studies.read(paths, given, seeds, duration)
    except Mistakes as mistakes:
        _fail(*mistakes.args)
    if how["emit_job"]:
        where = {name: how[name] for name in ("image", "volume_claim", "namespace")}
        _emit(paths, given, _options(seeds, duration), found, **where)
        return
    if how["index"] is not None:
        if how["index"] >= len(found):
            _fail(f"--index {how['index']}: there are {len(found)} simulations, from 0 to {len(found) - 1}")
        found = [found[how["index"]]]
    output: Path = how["output"]
    order = {name: n for n, name in enumerate((*dict.fromkeys(one.variant for one in found), sized.VARIANT))}
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _fail(f"{output}: {error.strerror}")
    processes = how["processes"] or os.cpu_count() or 1
    results, failures = _simulate(found, processes, output)
    sizing = None
    if how["size"] and results and not failures:
        base = next(one for one in results if one.variant == found[0].variant)
        sizing, confirmed = _size(found[0], base, output)
        results += confirmed
    if results and how["index"] is None:
        report.write(sorted(results, key=lambda one: (order[one.variant], one.seed)), sizing, output)
    for failure in failures:
        click.echo(failure, err=True)
    if any(one.until < one.ends for one in results):
        sys.exit(_INTERRUPTED)
    sys.exit(1 if failures else 0)


def _size(study: Study, base: SimulationResult, output: Path) -> tuple[Sizing | None, list[SimulationResult]]:
    """Prints the sizing of the first study, and simulates it with the slots."""
    try:
        found = sized.size(study, base)
    except errors.HoldfastError as error:
        _fail(str(error))
    text = msgspec.json.encode(found, order="deterministic").decode()
    whole_files.write(output / result_files.SIZING, f"{text}\n", replace=True, is_private=False)
    for line in simulate_sizing.lines(found):
        click.echo(line)
    if not found.results or base.until < base.ends:
        return found, []
    results, _ = _simulate([sized.with_slots(study, found.results)], 1, output)
    click.echo(simulate_sizing.confirmation(base, results[0] if results else None))
    return found, results


def _options(seeds: Sequence[int], duration: str) -> list[str]:
    """The options as words of a command line."""
    words = [word for seed in seeds for word in ("--seed", str(seed))]
    return [*words, "--for", duration] if duration else words


def _emit(
    paths: Sequence[str],
    given: Sequence[Variant],
    options: Sequence[str],
    found: Sequence[Study],
    **where: str,
) -> None:
    """Prints the Job. Its pods find the files under their names without folders."""
    files: dict[str, str] = {}
    for path in (*paths, *(one.path for one in given)):
        file = Path(path)
        if not file.is_file():
            _fail(f"{path}: --emit-job needs files, not folders or standard input")
        if files.setdefault(file.name, text := file.read_text(encoding="utf-8")) != text:
            _fail(f"{path}: another file has the same name")
    if sum(len(text.encode()) for text in files.values()) > job.CONFIG_MAX_BYTES:
        _fail("the files are too large for a ConfigMap")
    words = [Path(path).name for path in paths]
    words += [word for one in given for word in ("--variant", f"{one.name}={Path(one.path).name}")]
    words += options
    name = f"simulate-{found[0].name}"
    made = job.manifests(name, files, words, count=len(found), **where)
    click.echo("---\n".join(documents.text(one) for one in made), nl=False)


def _simulate(
    found: Sequence[Study], processes: int, output: Path
) -> tuple[list[SimulationResult], list[str]]:
    progress = _Progress(found)
    results: list[SimulationResult] = []
    failures: list[str] = []
    running = Studies(found, processes)
    _on_stop(running.stop)
    for number, outcome in running.run(progress.tell):
        one = found[number]
        progress.ended(number)
        if isinstance(outcome, Failure):
            failures.append(f"{one.variant}, seed {one.seed}: {outcome.text}")
        else:
            results.append(outcome)
            path = output / f"{one.variant}-{one.seed}{result_files.SUFFIX}"
            whole_files.write(path, result_files.text(outcome).decode(), replace=True, is_private=False)
    progress.close()
    return results, failures


def _on_stop(stop: Callable[[], None]) -> None:
    """Calls `stop` on the first signal; a second one ends the program."""

    def stopped(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, stopped)


class _Progress:
    """One line in a terminal: simulated time, speed, and an estimate. Nothing if standard error is not a terminal."""

    def __init__(self, found: Sequence[Study]) -> None:
        self._studies = found
        self._clock = RealClock()
        self._done_s = dict.fromkeys(range(len(found)), 0)
        self._total_s = sum(one.ends_s - one.begins_s for one in found)
        self._began_s = self._shown_s = self._clock.monotonic_s()
        self._is_shown = sys.stderr.isatty()

    def tell(self, number: int, now_s: int) -> None:
        self._done_s[number] = now_s - self._studies[number].begins_s
        self._show()

    def ended(self, number: int) -> None:
        one = self._studies[number]
        self._done_s[number] = one.ends_s - one.begins_s
        self._show()

    def close(self) -> None:
        if self._is_shown:
            click.echo("\r\033[K", nl=False, err=True)

    def _show(self) -> None:
        now_s = self._clock.monotonic_s()
        if not self._is_shown or now_s - self._shown_s < 1:
            return
        self._shown_s = now_s
        done_s, took_s = sum(self._done_s.values()), now_s - self._began_s
        speed = done_s / took_s
        left = f", {_span((self._total_s - done_s) / speed)} left" if speed else ""
        share = 100 * done_s // self._total_s
        text = f"{share}% of {_span(self._total_s)}, {speed:,.0f} times as fast as real time{left}"
        click.echo(f"\r\033[K{text[:79]}", nl=False, err=True)


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _fail(*findings: object) -> NoReturn:
    for finding in findings:
        click.echo(str(finding), err=True)
    sys.exit(1)
