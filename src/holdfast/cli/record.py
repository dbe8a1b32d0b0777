"""`holdfast record`: writes the history of a cluster's pods to a file."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from holdfast import errors
from holdfast.app.recording import cluster_recording
from holdfast.app.recording.cluster_recording import GAP_S, ClusterRecording, Progress, RecordOptions
from holdfast.cli import aws, options, page, signals
from holdfast.runtime import logs
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds

_NOT_WRITTEN: Final = 1
_USAGE: Final = 2
_UNREADABLE: Final = 3
_KILO: Final = 1000


@click.command()
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="File to write; compressed if it ends in .gz."
)
@click.option(
    "--for",
    "duration_s",
    metavar="DURATION",
    callback=options.seconds,
    help="How long to record, such as 168h.  [default: until Ctrl-C]",
)
@click.option(
    "--keep-label",
    "kept_labels",
    metavar="KEY",
    multiple=True,
    help="Write this label or taint key and its values as they are: those that your NodePools set. Repeatable.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--kubeconfig", metavar="FILE", default="", help="As with kubectl.")
@click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig.")
def command(
    *,
    output: str,
    duration_s: int | None,
    kept_labels: tuple[str, ...],
    force: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Write the history of a cluster's pods to a file that `holdfast simulate` replays.

    Lists and watches pods, DaemonSets and PodDisruptionBudgets; needs no AWS and writes nothing to the cluster. The file
    has arrivals, sizes, lengths and constraints of pods. Names are replaced by pseudonyms. Exit codes: 0 at the end or
    after Ctrl-C, 1 if the file cannot be written, 2 for a wrong argument or kubeconfig, 3 if the cluster cannot be read.
    """
    target = Path(output)
    if target.exists() and not force:
        _fail(f"{output} exists already; write to another file, or use --force", _NOT_WRITTEN)
    wanted = RecordOptions(
        output=target,
        force=force,
        duration_s=duration_s,
        kubeconfig=kubeconfig,
        context=context,
        kept_labels=frozenset(kept_labels),
    )
    logs.configure(clock=RealClock(), level="error")  # the line of progress shows a lost connection
    try:
        asyncio.run(_record(wanted))
    except errors.HoldfastError as error:
        _fail(str(error), _USAGE if isinstance(error, errors.InvalidInput) else _UNREADABLE)
    except OSError as error:
        _show_end()
        _fail(f"{output} cannot be written: {error.strerror or error}", _NOT_WRITTEN)
    except KeyboardInterrupt:
        raise click.Abort from None


async def _record(wanted: RecordOptions) -> None:
    """Ctrl-C before the cluster is read aborts; afterwards it ends the recording."""
    clock, ids, stop = RealClock(), RealIds(), asyncio.Event()
    async with cluster_recording.connected(wanted, environ=os.environ, clock=clock, ids=ids) as kube:
        recording = ClusterRecording(wanted, aws.TERMS, kube=kube, clock=clock, ids=ids)
        for note in await recording.read():
            click.echo(f"note: {page.clean(note)}", err=True)
        signals.on_stop(stop.set)
        recording.begin()
        click.echo(f"Recording to {wanted.output}. Press Ctrl-C to stop.", err=True)
        done = await recording.run(stop, _show)
    _show_end()
    click.echo(f"Wrote {wanted.output}: {_text(done)}.", err=True)


def _show(progress: Progress) -> None:
    if sys.stderr.isatty():
        lost = (
            f"; no response from the API server for {progress.silent_s} s"
            if progress.silent_s >= GAP_S
            else ""
        )
        click.echo(f"\r\x1b[K{_text(progress)}{lost}", nl=False, err=True)


def _show_end() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


def _text(progress: Progress) -> str:
    hours, rest_s = divmod(progress.at_s, 3600)
    return f"{progress.pods} pods, {_size(progress.size_bytes)}, {hours}:{rest_s // 60:02}:{rest_s % 60:02}"


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < _KILO:
            return f"{size:.{0 if unit == 'bytes' else 1}f} {unit}"
        size /= _KILO
    return f"{size:.1f} GB"


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"holdfast record: {page.clean(message)}", err=True)
    sys.exit(code)
