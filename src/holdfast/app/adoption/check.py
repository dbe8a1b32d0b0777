"""The check of `holdfast adopt --check`: a dry run, and its report."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.api import kinds
from holdfast.api.cluster import Event
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.app.adoption import dry_run, report
from holdfast.app.adoption.cluster_copy import ClusterCopy
from holdfast.app.adoption.dry_run import DryRun
from holdfast.app.adoption.report import Objects, Observed
from holdfast.app.settings import Program
from holdfast.controllers.nodeclaim import garbage
from holdfast.model.check_results import CheckResult
from holdfast.model.instances import Instance
from holdfast.runtime.clock import RealClock

_OLD_ENOUGH_S: Final = 60


async def check(program: Program, *, environ: Mapping[str, str], seconds: float) -> tuple[CheckResult, ...]:
    found = await dry_run.run(program, environ=environ, seconds=seconds)
    return report.results(
        Observed(
            pools=_objects(found.copy, NodePool),
            classes=_objects(found.copy, program.app.ownership.kind),
            claims=_objects(found.copy, NodeClaim),
            nodes=_objects(found.copy, Node),
            events=tuple(found.copy.after(Event).values()),
            writes=found.writes,
            lost_instances=tuple(one.provider_id.rpartition("/")[2] for one in _lost(found)),
        )
    )


def _lost(found: DryRun) -> list[Instance]:
    """The instances that garbage collection terminates when they are old enough. While a NodeClaim cannot be decoded,
    it terminates none."""
    try:
        claims = [_decoded(one) for one in found.copy.before(NodeClaim).values()]
    except msgspec.ValidationError:
        return []
    return garbage.without_claim(found.instances, claims, RealClock().now_s() + _OLD_ENOUGH_S)


def _objects(copy: ClusterCopy, kind: type[Object]) -> Objects:
    return Objects(copy.before(kind), copy.after(kind))


def _decoded(claim: Mapping[str, Any]) -> NodeClaim:
    decoded = kinds.from_plain(dict(claim), NodeClaim)
    assert isinstance(decoded, NodeClaim)
    return decoded
