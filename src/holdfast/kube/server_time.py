"""Reads the API server's clock from the creationTimestamp of an Event that is created with `dryRun=All`.

The creationTimestamp comes from the clock that the ages of objects count from; the `Date` header may be a proxy's.
Nothing is stored, and no permission is needed beyond creating Events.
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
AGAIN_S: Final = 5.0  # after no response, or one that contradicts the current offset
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
        """Reads the clock every minute until cancelled."""
        wait_s = AGAIN_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = await self.read()

    async def read(self) -> float:
        """Reads the API server's clock once, and returns the seconds until the next reading."""
        began_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(_ANSWER_S):
                created = (await self._client.create(_PROBE, dry_run=True)).metadata.creation_timestamp
        except (errors.Retryable, TimeoutError):
            return AGAIN_S
        except errors.HoldfastError as error:
            if not self._warned:
                structlog.get_logger().warning(
                    "failed to read the API server's clock; using the local clock",
                    error=str(error),
                )
            self._warned = True
            return EVERY_S
        if created is not None:
            self._clock.observe(int(created.timestamp()), self._clock.monotonic_s() - began_s)
        return AGAIN_S if self._clock.api_server.is_in_doubt else EVERY_S
