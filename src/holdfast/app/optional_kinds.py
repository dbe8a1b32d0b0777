"""The kinds that Holdfast reads only where the API server serves them and the process may list them.

The API server is asked at the start; a kind that it does not serve is not watched. If it ceases to serve a kind while the
process runs, the process ends and the kubelet restarts it: the watch of a kind that is no longer served would stop all
plans. If it begins to serve one, the process ends after some minutes: while the API servers of a control plane are
upgraded one by one, the answers differ from minute to minute.
"""

import contextlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.discovery import GroupList
from holdfast.api.kueue import Workload
from holdfast.api.meta import Object
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.api.scheduling import PodGroup
from holdfast.api.workloads import JobTimes
from holdfast.kube.client import Client
from holdfast.ports import Clock

KINDS: Final[tuple[type[Object], ...]] = (PodGroup, JobTimes, Workload, ProvisioningRequest)
# Kinds that are read with another one. The API server always serves them.
WITH: Final[Mapping[type[Object], type[Object]]] = MappingProxyType({ProvisioningRequest: PodTemplate})
# What is missing without the right to list a kind.
_WITHOUT: Final = {
    PodGroup: "the members of a gang are planned one by one",
    JobTimes: "pods of Jobs with activeDeadlineSeconds may be planned into capacity blocks that end before them",
    ProvisioningRequest: "ProvisioningRequests get no answer",
    Workload: "pods of Workloads with maximumExecutionTimeSeconds may be planned into capacity blocks that end before them",
}
_EVERY_S: Final = 60.0
_ANSWERS_MIN: Final = 10  # answers in a row before a kind counts as served


async def readable(kube: Client) -> tuple[type[Object], ...]:
    """The kinds that the API server serves, and that this process may list, with those that are read with them."""
    now, found = await served(kube), list[type[Object]]()
    for kind in KINDS:
        kinds = (kind, WITH[kind]) if kind in WITH else (kind,)
        if kind in now and all([await _may_be_listed(kube, one, of=kind) for one in kinds]):
            found += kinds
    return tuple(found)


async def _may_be_listed(kube: Client, kind: type[Object], *, of: type[Object]) -> bool:
    try:
        await anext(aiter(kube.pages(kind)))
    except errors.NotServed:
        return False  # the API server has the version without this kind
    except errors.Unauthorized as error:
        log = structlog.get_logger()
        log.warning("a kind is not read", kind=kind.plural, effect=_WITHOUT[of], error=str(error))
        return False
    return True


async def until_changed(kube: Client, clock: Clock, *, read: Iterable[type[Object]]) -> None:
    """Returns when the API server ceases to serve a kind that is read, or steadily serves a kind that it did not serve at
    first."""
    needed = frozenset(read) & frozenset(KINDS)
    first: frozenset[type[Object]] | None = (
        None  # served at first; without the right to list them they are not read
    )
    changed = 0
    while True:
        with contextlib.suppress(errors.HoldfastError):
            now = await served(kube)
            first = now | needed if first is None else first
            changed = changed + 1 if now - first else 0
            if needed - now or changed >= _ANSWERS_MIN:
                differing = sorted(kind.plural for kind in (needed - now) | (now - first))
                structlog.get_logger().warning(
                    "restarting: the API server serves other kinds", kinds=differing
                )
                return
        await clock.sleep(_EVERY_S)


async def served(kube: Client) -> frozenset[type[Object]]:
    """The kinds of which the API server serves the version that Holdfast reads."""
    groups = (await kube.document("/apis", GroupList)).groups
    versions = {f"{one.name}/{version.version}" for one in groups for version in one.versions}
    return frozenset(kind for kind in KINDS if kind.api_version in versions)
