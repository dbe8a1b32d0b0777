"""A minimal API server: Leases with resource versions, and network faults."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from scripted import Response, failure, respond


class LeaseServer:
    """Answers get, create and merge patch. `trouble` is the probability that a request or its answer is lost or late."""

    def __init__(self, dice: random.Random, trouble: float = 0) -> None:
        self._dice = dice
        self._version = 0
        self.trouble = trouble
        self.leases: dict[str, dict[str, Any]] = {}

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Response:
        del query, headers
        await self._network("the request was lost")
        answer = self._answer(method, path, msgspec.json.decode(body) if body else {})
        await self._network("the answer was lost")
        return answer

    async def _network(self, error: str) -> None:
        await asyncio.sleep(self._dice.uniform(0, 0.02))
        if self._dice.random() < self.trouble:
            await asyncio.sleep(self._dice.uniform(0, 20))
        if self._dice.random() < self.trouble:
            raise ConnectionResetError(error)

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> Response:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.leases:
                return failure(409, "AlreadyExists")
            return respond(201, self._store(path, body))
        if path not in self.leases:
            return failure(404, "NotFound")
        if method == "GET":
            return respond(200, self.leases[path])
        old = self.leases[path]
        if body["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            return failure(409, "Conflict")
        return respond(200, self._store(path, {**old, "spec": old.get("spec", {}) | body["spec"]}))

    def _store(self, path: str, lease: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        meta = {"uid": path, "resourceVersion": str(self._version)}
        lease = {**lease, "metadata": lease["metadata"] | meta}
        self.leases[path] = lease
        return lease
