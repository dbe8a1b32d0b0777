"""`holdfast snapshot`: writes a running cluster and its catalog to a file that `holdfast plan -f` reads."""

import json
import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scenario import Catalog
from holdfast.app.live import LiveCluster
from holdfast.cli import aws, live_options, run_options, scenarios, whole_files
from holdfast.scenarios import scrub, snapshot_documents

_FAILED: Final = 1
_STANDARD_OUTPUT: Final = "-"
_ROUNDS: Final = 4  # the schemas, the objects and the pods are checked one after the other

Json = dict[str, Any]


def _run(*, output: str, scrub_names: bool, force: bool, **written: str | None) -> None:
    target = Path(output)
    if output != _STANDARD_OUTPUT and target.exists() and not force:
        _fail(f"{output} exists already; write to another file, or use --force")
    documents = live_options.run("holdfast snapshot", run_options.flags(written), _documents)
    if scrub_names:
        documents = scrub.scrubbed(documents, aws.TERMS)
    text = _text(_readable(documents))
    if output == _STANDARD_OUTPUT:
        click.echo(text, nl=False)
        return
    try:
        whole_files.write(target, text, replace=force, is_private=True)
    except OSError as error:
        _fail(f"{output} cannot be written: {error.strerror}")
    click.echo(f"Wrote {output}: {len(text) / 1e6:.1f} MB. Plan with: holdfast plan -f {output}", err=True)


async def _documents(cluster: LiveCluster) -> list[Json]:
    live_options.report(cluster)
    return await documents_of(cluster)


async def documents_of(cluster: LiveCluster) -> list[Json]:
    """The scenario of a cluster: a Catalog, and objects."""
    planned = await cluster.snapshot()
    kind = cluster.cloud.node_classes.kind
    source = snapshot_documents.Source(
        snapshot=planned.snapshot,
        objects=lambda wanted: tuple(cluster.caches.find(wanted) or ()),
        settings=cluster.settings.planning,
        scheduler=cluster.settings.scheduler,
        group=kind.api_version.partition("/")[0],
        unserved=dict(cluster.unserved(planned)),
    )
    return snapshot_documents.documents(source, aws.TERMS)


def _readable(documents: list[Json]) -> list[Json]:
    """The documents without those that `holdfast plan` refuses, each with a note: an API server may have an object that
    a file must not have. So such an object costs nothing but itself, and a Node its pods."""
    for _ in range(_ROUNDS):
        found = scenarios.of_documents(documents)
        if not isinstance(found, scenarios.Broken):
            return documents
        for one in found.findings:
            click.echo(f"note: {one.name} is left out: {one.path}: {one.message}", err=True)
        documents = _without({one.name for one in found.findings}, documents)
    found = scenarios.of_documents(documents)
    if isinstance(found, scenarios.Broken):
        _fail(f"the snapshot cannot be written as a scenario: {found.findings[0]}")
    return documents


def _without(suspects: AbstractSet[str], documents: list[Json]) -> list[Json]:
    """Without those of the suspects that are refused, and without pods on their nodes."""
    refused = {id(one) for one in documents if _name(one) in suspects and _is_refused(one)}
    nodes = {one["metadata"]["name"] for one in documents if id(one) in refused and one["kind"] == Node.kind}
    return [
        one
        for one in documents
        if id(one) not in refused and (one["kind"] != Pod.kind or one["spec"].get("nodeName") not in nodes)
    ]


def _name(document: Json) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


def _is_refused(document: Json) -> bool:
    """Whether the object is refused also without the others. Objects in other namespaces may have its name."""
    spec = {key: value for key, value in document.get("spec", {}).items() if key != "nodeName"}
    catalog = {"apiVersion": Catalog.api_version, "kind": Catalog.kind, "metadata": {"name": "empty"}}
    alone = scenarios.of_documents([catalog, document | {"spec": spec}])
    return document["kind"] != Catalog.kind and isinstance(alone, scenarios.Broken)


def _text(documents: Sequence[Json]) -> str:
    """One List as JSON, with one object in each line: JSON is read ten times as fast as YAML."""
    lines = (json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in documents)
    return '{"apiVersion":"v1","kind":"List","items":[\n' + ",\n".join(lines) + "\n]}\n"


def _fail(message: str) -> NoReturn:
    click.echo(f"holdfast snapshot: {message}", err=True)
    sys.exit(_FAILED)


command: Final = click.Command(
    "snapshot",
    callback=_run,
    params=[
        click.Option(
            ["-o", "--output"],
            default=_STANDARD_OUTPUT,
            metavar="FILE",
            help="File to write; - is standard output.  [default: -]",
        ),
        click.Option(
            ["scrub_names", "--scrub"],
            is_flag=True,
            help="Replace names of objects, label values, accounts and reservation ids by pseudonyms.",
        ),
        click.Option(["--force"], is_flag=True, help="Replace the file if it exists."),
        *run_options.parameters(),
    ],
    help="""Write a cluster and its catalog to a file that `holdfast plan -f` reads and plans in the same way.

    Only reads from the cluster and from AWS. Takes the settings of `holdfast run`. The file has no environment variables,
    images, user data or secrets; with --scrub also no names. Exit codes: 0 if the file was written, 1 if it could not be
    written, 2 for a wrong setting, 3 if the cluster or the account cannot be read.""",
)
