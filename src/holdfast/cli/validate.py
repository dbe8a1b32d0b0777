"""`holdfast validate`: is this what the API server accepts, and can it ever work?"""

import sys

import click

from holdfast.cli import manifests


@click.command
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A file or a folder of YAML or JSON manifests, or - for standard input. May be given several times.",
)
@click.option(
    "--ignore-unknown-kinds",
    is_flag=True,
    help="Pass over objects of kinds that Holdfast does not read instead of reporting them.",
)
def command(paths: tuple[str, ...], *, ignore_unknown_kinds: bool) -> None:
    """Check manifests as the API server would, and whether they can work together.

    One line a finding on standard output: file and line, object, field, and what to do. Exits with 1 when
    there is any.
    """
    found = manifests.read(paths, ignore_unknown_kinds=ignore_unknown_kinds)
    for finding in sorted(found.findings, key=lambda f: (f.file, f.line, f.path)):
        click.echo(str(finding))
    click.echo(f"{len(found.objects)} valid, {len(found.findings)} findings", err=True)
    sys.exit(1 if found.findings else 0)
