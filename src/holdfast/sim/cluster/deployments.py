"""The Deployment controller: a ReplicaSet for each template, and rollouts."""

import hashlib
import math
from typing import Final

import msgspec

from holdfast.api.meta import ObjectMeta
from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Deployment, Json, ReplicaSet
from holdfast.sim.cluster.replicas import report

HASH: Final = "pod-template-hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Deployments:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sets = engine.caches.of(ReplicaSet)
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Deployment, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(ReplicaSet, lambda one: kinds.owner_key(one, Deployment))

    async def reconcile(self, key: Key) -> float | None:
        owner = self._engine.caches.of(Deployment).get(key)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return None
        mine = [one for one in self._sets if owner.metadata.uid in _owners(one)]
        hashed = template_hash(owner.spec["template"])
        new = next((one for one in mine if one.metadata.labels.get(HASH) == hashed), None)
        if new is None:
            new = await self._make(owner, hashed)
        old = sorted(
            (one for one in mine if one.metadata.uid != new.metadata.uid), key=lambda one: one.metadata.name
        )
        if not owner.spec.get("paused"):
            new = await self._proceed(owner, new, old)
        await self._report(owner, new, old)
        return None

    async def _make(self, owner: Deployment, hashed: str) -> ReplicaSet:
        template = owner.spec["template"]
        meta = template.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), HASH: hashed}
        selector = owner.spec["selector"]
        return await self._engine.kube.create(
            ReplicaSet(
                metadata=ObjectMeta(
                    name=f"{owner.metadata.name}-{hashed}",
                    namespace=owner.metadata.namespace,
                    labels=labels,
                    owner_references=kinds.owned_by(owner),
                ),
                spec={
                    "replicas": 0,
                    "selector": {
                        **selector,
                        "matchLabels": {**(selector.get("matchLabels") or {}), HASH: hashed},
                    },
                    "template": {**template, "metadata": {**meta, "labels": labels}},
                },
            )
        )

    async def _proceed(self, owner: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> ReplicaSet:
        """Scales up the new ReplicaSet as far as the surge allows, then scales down the old ones as far as availability
        allows."""
        wanted = int(owner.spec.get("replicas", 1))
        surge, unavailable = _rollout_limits(owner.spec.get("strategy") or {}, wanted)
        others = sum(_replicas(one) for one in old)
        if (owner.spec.get("strategy") or {}).get("type") == "Recreate":
            for one in old:
                await self._scale(one, 0)
            scaled_down = not any(one.status.get("replicas") for one in old)
            return await self._scale(new, wanted if scaled_down else 0)
        size = _replicas(new)
        if size > wanted:
            new = await self._scale(new, wanted)
        elif size < wanted:
            new = await self._scale(new, min(wanted, max(size, wanted + surge - others)))
        spare = sum(_available(one) for one in (new, *old)) - (wanted - unavailable)
        for one in old:
            # Deleting pods that are not available does not reduce availability.
            lame = max(0, _replicas(one) - _available(one))
            fewer = min(_replicas(one), lame + max(0, spare))
            spare -= max(0, fewer - lame)
            await self._scale(one, _replicas(one) - fewer)
        return new

    async def _scale(self, one: ReplicaSet, replicas: int) -> ReplicaSet:
        if _replicas(one) == replicas:
            return one
        return await self._engine.kube.patch(one, {"spec": {"replicas": replicas}})

    async def _report(self, owner: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> None:
        everything = [new, *(self._sets.get((o.metadata.namespace, o.metadata.name)) or o for o in old)]
        wanted = int(owner.spec.get("replicas", 1))
        available = sum(_available(one) for one in everything)
        _, unavailable = _rollout_limits(owner.spec.get("strategy") or {}, wanted)
        status = {
            "replicas": sum(one.status.get("replicas", 0) for one in everything),
            "updatedReplicas": new.status.get("replicas", 0),
            "readyReplicas": sum(one.status.get("readyReplicas", 0) for one in everything),
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted - available),
            "observedGeneration": owner.metadata.generation,
        }
        enough = available >= wanted - unavailable
        availability = _condition("Available", "MinimumReplicas", enough=enough)
        progress = _condition("Progressing", "ReplicaSetUpdated", enough=True)
        before = {(c["type"], c["status"]) for c in owner.status.get("conditions") or ()}
        changes = {(c["type"], c["status"]) for c in (availability, progress)}
        if not changes <= before:
            now = self._engine.now()
            conditions = [
                {**c, "lastTransitionTime": now, "lastUpdateTime": now} for c in (availability, progress)
            ]
            status["conditions"] = conditions
        await report(self._engine, owner, status)


def template_hash(template: Json) -> str:
    """A hash of a template."""
    body = msgspec.json.encode(template, order="deterministic")
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.blake2b(body, digest_size=10).digest())


def _condition(kind: str, reason: str, *, enough: bool) -> Json:
    word = "Available" if kind == "Available" and enough else "Unavailable"
    why = f"{reason}{word}" if kind == "Available" else reason
    return {"type": kind, "status": "True" if enough else "False", "reason": why, "message": why}


def _rollout_limits(strategy: Json, wanted: int) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers of pods."""
    rolling = strategy.get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return (surge, unavailable) if surge or unavailable else (surge, 1)


def share(value: int | str, of: int, *, up: bool) -> int:
    """A number, or a percentage of one."""
    if isinstance(value, int):
        return value
    exact = int(value.removesuffix("%")) * of / 100
    return math.ceil(exact) if up else math.floor(exact)


def _owners(one: ReplicaSet) -> list[str]:
    return [reference.uid for reference in one.metadata.owner_references]


def _replicas(one: ReplicaSet) -> int:
    return int(one.spec.get("replicas", 1))


def _available(one: ReplicaSet) -> int:
    return min(int(one.status.get("availableReplicas", 0)), _replicas(one))
