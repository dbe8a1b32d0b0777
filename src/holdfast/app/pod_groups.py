"""Whether PodGroups are read: the API is alpha and off by default, so the API server is asked at the start.

Without it nothing is watched. If it disappears while the process runs, the process ends and the kubelet restarts it: the
watch of a kind that is no longer served would stop all plans. If it appears, the process ends after some minutes: while
the API servers of a control plane are upgraded one by one, the answers differ from minute to minute.
"""

import contextlib
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.discovery import GroupList
from holdfast.api.scheduling import PodGroup
from holdfast.kube.client import Client
from holdfast.ports import Clock

_EVERY_S: Final = 60.0
_ANSWERS_MIN: Final = 10  # answers in a row before PodGroups count as served


async def may_be_read(kube: Client) -> bool:
    """Whether the API server serves PodGroups, and this process may list them."""
    if not await are_served(kube):
        return False
    try:
        await anext(aiter(kube.pages(PodGroup)))
    except errors.NotServed:
        return False  # the API server has the version without this kind
    except errors.Unauthorized as error:
        log = structlog.get_logger()
        log.warning("PodGroups are ignored: the members of a gang are planned one by one", error=str(error))
        return False
    return True


async def until_changed(kube: Client, clock: Clock, *, were_read: bool) -> None:
    """Returns when the API server ceases to serve PodGroups that were read, or steadily serves PodGroups that it did not
    serve at first."""
    served = True if were_read else None  # without the right to list them they are served and not read
    changed = 0
    while True:
        with contextlib.suppress(errors.HoldfastError):
            now = await are_served(kube)
            served = now if served is None else served
            changed = changed + 1 if now != served else 0
            if changed >= (1 if were_read else _ANSWERS_MIN):
                structlog.get_logger().warning("restarting: PodGroups", served=now)
                return
        await clock.sleep(_EVERY_S)


async def are_served(kube: Client) -> bool:
    """Whether the API server serves the version of PodGroup that Holdfast reads."""
    group, _, version = PodGroup.api_version.partition("/")
    groups = (await kube.document("/apis", GroupList)).groups
    return any(one.name == group and version in (v.version for v in one.versions) for one in groups)
