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
_REFUSED_MAX: Final = 1000
UNKNOWN: Final = (errors.Unreachable, errors.Conflict, errors.NotReady)
"""After these errors the call may have launched an instance, so the token is used again."""


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
        self._refused: dict[str, None] = {}  # tokens of gangs with an answer, and without an instance

    async def launch(self, request: LaunchRequest) -> tuple[NodeClaim, Instance | Exception]:
        """Returns the claim with its token, and its instance or the error."""
        pending = _PendingLaunch(request, asyncio.get_running_loop().create_future())
        self._waiting.append(pending)
        if len(self._waiting) == 1:
            await self._gathered()
        return await pending.answer

    def is_sent(self, claim: NodeClaim) -> bool:
        """Whether an instance may have been launched for a NodeClaim of a gang."""
        token = claim.metadata.annotations.get(names.LAUNCH_TOKEN)
        return token is not None and token not in self._refused

    async def launch_gang(self, requests: list[LaunchRequest], gang: str) -> list[Instance | Exception]:
        """Launches all or none, by one call of the Cloud port; the outcomes in order. All NodeClaims get the same token, so
        nothing is launched before all have it. They keep it: some may have an instance, and others an error."""
        known = (_claim(one).metadata.annotations.get(names.LAUNCH_TOKEN) for one in requests)
        token = next(filter(None, known), None) or self._ids.token()
        stamped = await asyncio.gather(*(self._with_token(one, token) for one in requests))
        ready = [replace(one, gang=gang) for one in stamped if isinstance(one, LaunchRequest)]
        if len(ready) < len(requests):
            failed = next(one for one in stamped if not isinstance(one, LaunchRequest))
            return [errors.NotReady(f"NodeClaims of a gang could not be written: {failed}")] * len(requests)
        # After a crash a NodeClaim may have the instance of an earlier call, and not be Launched yet.
        own = {_claim(one).status.provider_id for one in ready}
        self._refused.pop(token, None)
        outcomes = list(await self._cloud.launch(ready, owned=self._owned() - own))
        if not any(isinstance(one, (Instance, *UNKNOWN)) for one in outcomes):
            self._refused = dict.fromkeys((*list(self._refused)[-_REFUSED_MAX:], token))
        return outcomes

    def _owned(self) -> set[str]:
        return {claim.status.provider_id for claim in self._claims if claim.status.provider_id}

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
        outcomes = await self._cloud.launch([one.request for one in ready], owned=self._owned())
        for one, outcome in zip(ready, outcomes, strict=True):
            if not one.answer.done():
                one.answer.set_result((_claim(one.request), outcome))

    async def _stamped(self, request: LaunchRequest, token: str) -> LaunchRequest | errors.HoldfastError:
        """Writes the token on the claim before the launch."""
        known = _claim(request).metadata.annotations.get(names.LAUNCH_TOKEN)
        return replace(request, token=known) if known else await self._with_token(request, token)

    async def _with_token(self, request: LaunchRequest, token: str) -> LaunchRequest | errors.HoldfastError:
        claim = _claim(request)
        if claim.metadata.annotations.get(names.LAUNCH_TOKEN) == token:
            return replace(request, token=token)
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
