"""`holdfast report`: merges the results of many simulations into one report."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from holdfast import errors
from holdfast.api.simulation_results import SimulationResult, Sizing
from holdfast.cli import page, page_output, report_page, whole_files
from holdfast.simulate.report import outputs, result_files, study

_FAILED: Final = 1
_EXIT_CODES: Final = "Exit codes: 0 if the report was written, also with partial or missing results; 1 if a result file cannot be used, or nothing can be written; 2 for a wrong argument."
_SHOWN: Final = 20  # errors


@click.command(epilog=_EXIT_CODES)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder to write to; it is created.  [default: the folder with the results]",
)
@click.option("--mixed", is_flag=True, help="Allow results of different inputs in one report.")
def command(folder: Path, output: Path | None, *, mixed: bool) -> None:
    """Merge the results in FOLDER into one report of their variants.

    Reads all files that end in .result.json, which `holdfast simulate` writes, one for each variant and seed, and
    sizing.json of `holdfast simulate --size` if it is there. Writes
    report.html (one file, opens offline), report.json, variants.csv and reservations.csv.
    """
    results, sizing = _read(folder)
    try:
        result_files.check_set(results, mixed=mixed)
    except errors.InvalidInput as error:
        _fail([str(error)])
    write(results.values(), sizing, output or folder)


def write(results: Iterable[SimulationResult], sizing: Sizing | None, target: Path) -> None:
    """Writes the files of the report, and shows the variants."""
    merged = study.build(results)
    files = outputs.build(merged, sizing)
    _write(target, files)
    written = [f"{name} ({len(text.encode()) / 1000:,.0f} kB)" for name, text in files.items()]
    built = report_page.build(merged, f"Wrote {', '.join(written)} to {target}.")
    page_output.write(built, wide=False)


def _read(folder: Path) -> tuple[Mapping[str, SimulationResult], Sizing | None]:
    found: dict[str, SimulationResult] = {}
    problems: list[str] = []
    sizing = None
    paths = sorted(path for path in folder.glob(f"*{result_files.SUFFIX}") if path.is_file())
    for path in (*paths, folder / result_files.SIZING):
        try:
            if path.name != result_files.SIZING:
                found[path.name] = result_files.read(path.name, _bytes(path))
            elif path.exists():
                sizing = result_files.read_sizing(path.name, _bytes(path))
        except errors.InvalidInput as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path.name}: cannot be read: {error.strerror}")
    if not paths:
        problems.append(
            f"{folder} has no files that end in {result_files.SUFFIX}; `holdfast simulate` writes them"
        )
    if problems:
        _fail(problems)
    return found, sizing


def _bytes(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(result_files.BYTES_MAX + 1)


def _write(target: Path, files: Mapping[str, str]) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            whole_files.write(target / name, text, replace=True, is_private=False)
    except OSError as error:
        _fail([f"{error.filename or target} cannot be written: {error.strerror}"])


def _fail(problems: Sequence[str]) -> NoReturn:
    for one in problems[:_SHOWN]:
        click.echo(f"holdfast report: {page.clean(one)}", err=True)
    if len(problems) > _SHOWN:
        click.echo(f"holdfast report: and {len(problems) - _SHOWN} more", err=True)
    sys.exit(_FAILED)
