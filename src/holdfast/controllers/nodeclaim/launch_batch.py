"""Batches launches: NodeClaims that arrive at about the same time share one call of the Cloud port.

A plan of a hundred nodes needs a few calls. Before the call all its claims get the same token. A claim with a token
keeps it, because the token finds the instance of an earlier call (decision 24).
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from holdfast import errors, names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest, Ports
from holdfast.runtime.cache import Caches

_GATHER_S: Final = 0.05
_GATHER_TIMES: Final = 20
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class _PendingLaunch:
    request: LaunchRequest
    answer: "asyncio.Future[tuple[NodeClaim, Instance | Exception]]"


class LaunchBatcher:
    def __init__(self, *, ports: Ports, caches: Caches) -> None:
        self._cloud = ports.cloud
        self._kube = ports.kube
        self._clock = ports.clock
        self._ids = ports.ids
        self._claims = caches.of(NodeClaim)
        self._waiting: list[_PendingLaunch] = []

    async def launch(self, request: LaunchRequest) -> tuple[NodeClaim, Instance | Exception]:
        """Returns the claim with its token, and its instance or the error."""
        pending = _PendingLaunch(request, asyncio.get_running_loop().create_future())
        self._waiting.append(pending)
        if len(self._waiting) == 1:
            await self._gathered()
        return await pending.answer

    async def _gathered(self) -> None:
        """The first caller makes the call for all. It waits while more callers arrive: each of them wrote its claim
        before, and the API server may be slow."""
        came = 0
        for _ in range(_GATHER_TIMES):
            if came == len(self._waiting):
                break
            came = len(self._waiting)
            await self._clock.sleep(_GATHER_S)
        waiting, self._waiting = self._waiting, []
        try:
            for start in range(0, len(waiting), _MOST):
                await self._call(waiting[start : start + _MOST])
        finally:
            for pending in waiting:
                if not pending.answer.done():
                    pending.answer.set_result(
                        (
                            _claim(pending.request),
                            errors.Unreachable("the launch call ended without an answer"),
                        )
                    )

    async def _call(self, batch: list[_PendingLaunch]) -> None:
        token = self._ids.token()
        ready = []
        for one, request in zip(
            batch, await asyncio.gather(*(self._stamped(one.request, token) for one in batch)), strict=True
        ):
            if isinstance(request, LaunchRequest):
                ready.append(replace(one, request=request))
            elif not one.answer.done():
                one.answer.set_result((_claim(one.request), request))
        if not ready:
            return
        owned = {claim.status.provider_id for claim in self._claims if claim.status.provider_id}
        outcomes = await self._cloud.launch([one.request for one in ready], owned=owned)
        for one, outcome in zip(ready, outcomes, strict=True):
            if not one.answer.done():
                one.answer.set_result((_claim(one.request), outcome))

    async def _stamped(self, request: LaunchRequest, token: str) -> LaunchRequest | errors.HoldfastError:
        """Writes the token on the claim before the launch."""
        claim = _claim(request)
        known = claim.metadata.annotations.get(names.LAUNCH_TOKEN)
        if known:
            return replace(request, token=known)
        try:
            claim = await self._kube.patch(
                claim, {"metadata": {"annotations": {names.LAUNCH_TOKEN: token}}}, only_if_unchanged=True
            )
        except errors.HoldfastError as error:
            return error
        return replace(request, claim=claim, token=token)


def _claim(request: LaunchRequest) -> NodeClaim:
    assert isinstance(request.claim, NodeClaim)
    return request.claim
