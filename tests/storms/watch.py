"""What must hold all through a storm, seen in everything that is written meanwhile.

Run beside it by the harness. The rules: of the nodes of a NodePool no more are being disrupted at once than its
budgets allow; and a pod is taken away by eviction, which disruption budgets rule, or because EC2 takes its machine.
"""

from collections import Counter
from typing import Final

import msgspec

from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.api.server import ApiServer
from storms.generate import Storm

_CLAIMS: Final = "karpenter.sh/nodeclaims"


class Watch:
    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._going: dict[str, str] = {}  # claims that are being disrupted, with their pools
        self._found: dict[str, None] = {}  # in the order of their finding

    async def run(self, server: ApiServer) -> None:
        bucket = server.registry.store.bucket(_CLAIMS)
        position = bucket.end
        while True:
            changed = bucket.changed()
            for change in bucket.changes(position):
                claim = msgspec.json.decode(change.after.body, type=NodeClaim)
                self.see(claim, is_gone=change.deleted)
            position = bucket.end
            await changed

    def see(self, claim: NodeClaim, *, is_gone: bool) -> None:
        name, pool = claim.metadata.name, claim.metadata.labels["karpenter.sh/nodepool"]
        said = claim.status.conditions
        over = is_gone or conditions.holds(
            said, "InstanceTerminating"
        )  # those are of no NodePool any more (D-10)
        if over or not conditions.holds(said, "DisruptionReason"):
            self._going.pop(name, None)
            return
        self._going[name] = pool
        count = Counter(self._going.values())[pool]
        most = next(one.away_max for one in self._storm.pools if one.name == pool)
        if count > most:
            self._found[f"{count} nodes of {pool} were being disrupted at once, of at most {most}"] = None

    def problems(self, writes: list[str]) -> list[str]:
        """Those that were seen, and those among what the program wrote."""
        return [*self._found, *self._deletions(writes)]

    def _deletions(self, writes: list[str]) -> list[str]:
        """Where no machine was given a date, nobody has a reason to be in a hurry."""
        if any(slots.block for slots in self._storm.slots):
            return []
        deleted = [write for write in writes if write.startswith("DELETE") and "/pods/" in write]
        return [f"a pod was deleted instead of evicted: {write}" for write in deleted]
