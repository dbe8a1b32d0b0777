"""`holdfast validate`: checks manifests like the API server, and against each other."""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.findings import Finding
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.api.world import World
from holdfast.cli import manifests, options
from holdfast.cli.manifests import Loaded, Located
from holdfast.cloud.aws.nodeclass import preflight
from holdfast.state.conversion import nodepools


@click.command
@options.manifests
def command(paths: tuple[str, ...], *, ignore_unknown_kinds: bool) -> None:
    """Check manifests like the API server, and against each other.

    Prints one line per finding: file, line, object, field, and what to do. The exit code is 1 if there are any.
    """
    read = manifests.read(paths, ignore_unknown_kinds=ignore_unknown_kinds)
    findings = [*read.findings, *_findings_together(read.objects)]
    for finding in sorted(findings, key=lambda f: (f.file, f.line, f.path)):
        click.echo(str(finding))
    for note in _notes(read.objects):
        click.echo(f"note: {note}", err=True)
    click.echo(_summary(len(read.objects), len(findings)), err=True)
    sys.exit(1 if findings else 0)


def _findings_together(objects: Sequence[Loaded]) -> Iterator[Located]:
    """Findings that need more than the schema of one object."""
    classes = _node_classes(objects)
    for item in objects:
        match item.obj:
            case NodePool() as pool:
                found = _pool_findings(pool, classes)
            case EC2NodeClass() as node_class:
                found = list(preflight.class_problems(node_class))
            case World() as world:
                found = _world_findings(world)
            case _:
                found = []
        yield from (item.located(finding) for finding in found)


def _pool_findings(pool: NodePool, classes: Mapping[tuple[str, str], EC2NodeClass]) -> list[Finding]:
    found = list(nodepools.problems(pool, preflight.WELL_KNOWN_LABELS))
    foreign = list(preflight.reference_problems(pool))
    reference = pool.spec.template.spec.node_class_ref
    node_class = classes.get((reference.group, reference.name))
    if node_class is not None and not found and not foreign:
        found += preflight.problems(pool, node_class)
    return found + foreign


def _world_findings(world: World) -> list[Finding]:
    """Imports the simulator only for a World: the import is slow."""
    return list(importlib.import_module("holdfast.sim.world_reading").problems(world))


def _notes(objects: Sequence[Loaded]) -> Iterator[str]:
    """Remarks that are not mistakes."""
    classes = _node_classes(objects)
    for item in objects:
        match item.obj:
            case NodePool() as pool:
                if pool.spec.replicas is not None:
                    yield f"{item.name}: spec.replicas is accepted but has no effect"
                reference = pool.spec.template.spec.node_class_ref
                is_known = (reference.group, reference.name) in classes
                if not is_known and not list(preflight.reference_problems(pool)):
                    yield (
                        f"{item.name}: the files have no valid EC2NodeClass/{reference.name} of {reference.group}, "
                        "so the two were not checked together"
                    )
            case Pod() as pod if pod.spec.resource_claims:
                yield f"{item.name}: spec.resourceClaims is accepted but has no effect"


def _node_classes(objects: Sequence[Loaded]) -> dict[tuple[str, str], EC2NodeClass]:
    """By group and name."""
    classes = [item.obj for item in objects if isinstance(item.obj, EC2NodeClass)]
    return {(one.api_version.partition("/")[0], one.metadata.name): one for one in classes}


def _summary(objects: int, findings: int) -> str:
    return f"{_counted(objects, 'valid object')}, {_counted(findings, 'finding')}"


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
