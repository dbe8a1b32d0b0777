"""nodeclass.garbagecollection: deletes unused launch templates and instance profiles of node classes.

Runs every ten minutes under one key, and not directly after a start: a launch of the previous process may just have
started to use them.
"""

from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.ports import Cloud
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter

KEY: Final[Key] = ("", "garbage")
PERIOD_S: Final = 600.0


class Garbage:
    name: Final = "nodeclass.garbagecollection"

    def __init__(self, *, cloud: Cloud, caches: Caches) -> None:
        self._cloud = cloud
        self._classes = caches.of(cloud.node_classes.kind)
        self._claims = caches.of(NodeClaim)
        self._is_first = True

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        if not self._is_first:
            await self._cloud.collect(tuple(self._classes), tuple(self._claims))
        self._is_first = False
        return RequeueAfter(PERIOD_S, "next search for unused launch templates and instance profiles")
