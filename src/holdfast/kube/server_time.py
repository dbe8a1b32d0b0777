"""Reads the API server's clock: an Event that is created with `dryRun=All` comes back with its creationTimestamp.

Built and run by `app`. The creationTimestamp is set by exactly the clock that the ages of objects are counted from; the
`Date` header may be a proxy's. Nothing is stored, and no right is needed beyond the one to create Events.
"""

import asyncio
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.cluster import Event
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import ObjectReference
from holdfast.kube.client import Client
from holdfast.runtime.clock import ProgramClock

EVERY_S: Final = 60.0
AGAIN_S: Final = 5.0  # after no answer, or one that contradicts the time we count by
_ANSWER_S: Final = 5.0
_PROBE: Final = Event(
    metadata=ObjectMeta(name="holdfast-clock", namespace="default"),
    involved_object=ObjectReference(kind="Namespace", namespace="default", name="default"),
    reason="ClockRead",
    type="Normal",
)


class ServerTime:
    def __init__(self, client: Client, clock: ProgramClock) -> None:
        self._client = client
        self._clock = clock
        self._warned = False

    async def run(self) -> None:
        """Until it is cancelled."""
        wait_s = AGAIN_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = await self.read()

    async def read(self) -> float:
        """Reads the API server's clock once. When to read it again."""
        began_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(_ANSWER_S):
                created = (await self._client.create(_PROBE, dry_run=True)).metadata.creation_timestamp
        except (errors.Retryable, TimeoutError):
            return AGAIN_S
        except errors.HoldfastError as error:
            if not self._warned:
                structlog.get_logger().warning(
                    "cannot read the clock of the API server; ages are counted by this process's clock",
                    error=str(error),
                )
            self._warned = True
            return EVERY_S
        if created is not None:
            self._clock.observe(int(created.timestamp()), self._clock.monotonic_s() - began_s)
        return AGAIN_S if self._clock.api_server.is_in_doubt else EVERY_S
