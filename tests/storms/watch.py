"""What must hold all through a storm, looked at after every write to a NodeClaim or a pod.

Run beside it by the harness. The rules: of the nodes of a NodePool no more are being disrupted at once than its
budgets allow; a node that is well goes by somebody's command; its pods have a home then, or it is a node that goes first,
and its slot is held for them; consolidation never pays more, and leaves in peace whom it moved; a pod is taken away by
eviction, which disruption budgets rule, or because EC2 takes its machine; no slot is given to two; and nobody waits for one without end.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from app_world import AppWorld
from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.api.storage.store import Bucket, Change
from holdfast.sim.cluster import amounts
from holdfast.sim.cluster import pods as pod_words
from holdfast.sim.cluster.kinds import Node, Pod
from holdfast.sim.ec2.entities import Instance
from storms import rules
from storms.generate import App, Storm
from storms.rules import Guest, Peace, Room

COMMAND: Final = "holdfast.dev/disruption-command"
SLOT: Final = "holdfast.dev/reservation-id"
TOKEN: Final = "holdfast.dev/launch-token"
WAITS: Final = "holdfast.dev/waits-for-instance"
CONSOLIDATION: Final = "Underutilized"
COUNTED_S: Final = 150  # counts are read each minute, and a storm has them late by a minute more
SETTLES_S: Final = 60  # after a disturbance, until what the program sees is what is there
WAITS_MAX_S: Final = (
    15 * 60
)  # ten minutes once the machine is gone, and what a storm keeps the program from seeing


class Watch:
    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._apps = {app.name: app for app in storm.apps}
        self._going: dict[str, str] = {}  # claims that are being disrupted, with their pools
        self._decided_s: dict[str, int] = {}  # commands by id; the program's own clock may be wrong
        self._bound_s: dict[str, int] = {}  # pods by uid
        self._peace = Peace()
        self._taken_s = 0
        self._calm_s = 0  # the last time that somebody else did something to a node
        self._found: dict[str, None] = {}  # in the order of their finding
        self.exempt: set[str] = set()  # claims that people told to go
        self.judged: Counter[str] = Counter()  # how often a rule had something to say

    def start(self, world: AppWorld) -> None:
        self._world = world
        store = world.server.registry.store
        self._claims, self._pods, self._nodes = map(
            store.bucket, ("karpenter.sh/nodeclaims", "/pods", "/nodes")
        )
        _listen(self._claims, self._see_claim)
        _listen(self._pods, self._see_pod)
        _listen(self._nodes, self._see_node)

    def disturbed(self) -> None:
        """Somebody did something to the world that no command could have known."""
        self._calm_s = self._world.clock.now_s()

    def taken(self) -> None:
        """Others took slots, or nobody could count them."""
        self._taken_s = self._world.clock.now_s()

    def problems(self, writes: list[str]) -> list[str]:
        """Those that were seen, and those among what the program wrote."""
        return [*self._found, *self._deletions(writes)]

    def _deletions(self, writes: list[str]) -> list[str]:
        """Where no machine was given a date, nobody has a reason to be in a hurry."""
        if any(slots.block or slots.interruptible for slots in self._storm.slots):
            return []
        deleted = [write for write in writes if write.startswith("DELETE") and "/pods/" in write]
        return [f"a pod was deleted instead of evicted: {write}" for write in deleted]

    # --- What is written ------------------------------------------------------------------------------

    def _see_claim(self, change: Change) -> None:
        claim = _claim(change.after.body)
        if command := _command(claim):
            self._decided_s.setdefault(command["id"], self._world.clock.now_s())
        before = _claim(change.before.body) if change.before else None
        self.see(claim, is_gone=change.deleted)
        went_before = before is not None and before.metadata.deletion_timestamp is not None
        if claim.metadata.deletion_timestamp is not None and not went_before:
            self._goes(claim)
        if before is None and SLOT in claim.metadata.annotations and WAITS not in claim.metadata.annotations:
            self._is_planned(claim.metadata.annotations[SLOT])
        if _says(claim, "InstanceTerminating") and not (before and _says(before, "InstanceTerminating")):
            self._ends(claim)

    def _see_pod(self, change: Change) -> None:
        pod = _pod(change.after.body)
        if pod_words.node_of(pod):
            self._bound_s.setdefault(pod.metadata.uid, self._world.clock.now_s())
        if _is_evicted(pod) and change.before is not None and not _is_evicted(_pod(change.before.body)):
            self._evicted(pod)

    def _see_node(self, change: Change) -> None:
        """A node that fails is no home any more, whoever counted on it."""
        was_ready = change.before is not None and _is_ready(_node(change.before.body))
        if was_ready and not _is_ready(_node(change.after.body)):
            self.disturbed()

    # --- Rules ----------------------------------------------------------------------------------------

    def see(self, claim: NodeClaim, *, is_gone: bool) -> None:
        """Budgets of NodePools."""
        name, pool = claim.metadata.name, claim.metadata.labels["karpenter.sh/nodepool"]
        over = is_gone or _says(claim, "InstanceTerminating")  # those are of no NodePool any more (D-10)
        if over or not _says(claim, "DisruptionReason"):
            self._going.pop(name, None)
            return
        self._going[name] = pool
        count = Counter(self._going.values())[pool]
        most = next(one.away_max for one in self._storm.pools if one.name == pool)
        if count > most:
            self._say(f"{count} nodes of {pool} were being disrupted at once, of at most {most}")

    def _is_planned(self, id_: str) -> None:
        """A slot is given to a claim: was there one? What others took a short while ago nobody could know, nor who falls
        into an open reservation."""
        there, now_s = self._world.ec2.world.reservations[id_], self._world.clock.now_s()
        if there.criteria == "open" or now_s - self._taken_s < COUNTED_S:
            return
        self.judged["slots that were given"] += 1
        inside = [one for one in self._world.ec2.world.instances if one.held_reservation_id == id_]
        launched = {one.tags.get(TOKEN) for one in inside}
        held = [
            claim.metadata.name
            for claim in self._all_claims()
            if claim.metadata.annotations.get(SLOT) == id_
            and not (claim.status.provider_id or WAITS in claim.metadata.annotations)
            and claim.metadata.annotations.get(TOKEN) not in launched
        ]
        if len(inside) + len(held) + there.elsewhere > there.total:
            self._say(
                f"{id_} of {there.total} has {there.elsewhere} others, {inside}, and is given to {held}"
            )

    def _goes(self, claim: NodeClaim) -> None:
        """A claim is told to go: by whom, and what becomes of its pods?"""
        command, machine = _command(claim), self._machine(claim)
        if command is None:
            self.disturbed()
            self.judged["gone without a command"] += 1
            if machine is not None and self._is_well(claim, machine):
                self._say(f"claim {claim.metadata.name} goes, and nobody ordered it")
            return
        at_s = self._decided_s[command["id"]]
        if at_s - self._calm_s < SETTLES_S or machine is None:
            return  # it was another world that the command was made for
        self.judged[f"gone: {command['reason']}"] += 1
        if command["reason"] == CONSOLIDATION:
            self._pays(claim, command)
        firsts = [one for one in self._replacements(command) if WAITS in one.metadata.annotations]
        if firsts:
            self.judged["gone first"] += 1
            self._is_held(claim, machine, firsts)
        elif not rules.have_homes(self._guests(claim, at_s), self._rooms(at_s)):
            self._say(f"pods of {claim.status.node_name} have no home when it goes: {command}")

    def _is_well(self, claim: NodeClaim, machine: Instance) -> bool:
        """Whether neither people nor EC2 nor its node gave a reason to end it."""
        node = self._nodes.objects.get(("", claim.status.node_name or ""))
        leaves = node is None or _node(node.body).metadata.deletion_timestamp is not None
        in_block = machine.lifecycle not in ("", "spot")
        told = claim.metadata.name in self.exempt
        return machine.live and _says(claim, "Ready") and not (
            told or leaves or in_block or machine.silent or machine.impaired
        )  # fmt: skip

    def _pays(self, claim: NodeClaim, command: dict[str, Any]) -> None:
        setup = self._world.ec2.world.setup
        group = [one for one in self._all_claims() if (_command(one) or {}).get("id") == command["id"]]
        before = [self._machine(one) for one in group]
        after = [self._machine(one) for one in self._replacements(command)]
        was, will_be = (
            sum(rules.hourly_nano_usd(one, setup) for one in some if one is not None)
            for some in (before, after)
        )
        if will_be > was:
            self._say(f"consolidation of {claim.metadata.name} raises {was} to {will_be}: {command}")

    def _is_held(self, claim: NodeClaim, machine: Instance, firsts: list[NodeClaim]) -> None:
        """A node goes first: then the slot it leaves is one replacement's, and no two wait for one machine."""
        mine = [one for one in firsts if one.metadata.annotations[WAITS] == claim.status.provider_id]
        if [one.metadata.annotations[SLOT] for one in mine] != [machine.reservation_id]:
            self._say(f"{claim.metadata.name} goes first, and its slot is not held by one claim: {firsts}")

    def _ends(self, claim: NodeClaim) -> None:
        """Its machine is ended: by us, when nobody is there any more."""
        machine = self._machine(claim)
        if machine is None or machine.state_reason[0] != "Client.UserInitiatedShutdown":
            return
        self.judged["machines that were ended"] += 1
        left = [
            pod.metadata.name
            for pod in self._on(claim)
            if not pod_words.leaving(pod) and not self._app(pod).tolerates  # those stay to the end (NC-29)
        ]
        if left:
            self._say(f"the machine of {claim.metadata.name} was ended under {left}")

    def _evicted(self, pod: Pod) -> None:
        claim = self._claim_of_node(pod_words.node_of(pod))
        command = _command(claim) if claim is not None else None
        made, now_s = pod.metadata.creation_timestamp, self._world.clock.now_s()
        if command is not None and command["reason"] == CONSOLIDATION and made is not None:
            app = pod.metadata.labels["app"]
            self.judged["pods that consolidation moved"] += 1
            if self._peace.moved(app, made_s=int(made.timestamp()), now_s=now_s):
                self._say(f"{pod.metadata.name} was moved again too soon: {command}")

    def look(self) -> None:
        """Every so often: who waits for a slot, and for how long already?"""
        for claim in self._all_claims():
            id_ = claim.metadata.annotations.get(WAITS, "").rpartition("/")[2]
            machine = self._world.ec2.world.instances.get(id_) if id_ else None
            gone_s = machine.ended_s if machine is not None else 0
            if gone_s and self._world.clock.now_s() - gone_s > WAITS_MAX_S:
                self._say(f"claim {claim.metadata.name} waits for the slot of {id_}, gone since {gone_s}")

    # --- What there is --------------------------------------------------------------------------------

    def _say(self, what: str) -> None:
        self._found[what] = None

    def _all_claims(self) -> Iterator[NodeClaim]:
        return (_claim(stored.body) for stored in self._claims.objects.values())

    def _replacements(self, command: dict[str, Any]) -> list[NodeClaim]:
        found = (self._claims.objects.get(("", name)) for name in command.get("replacements", ()))
        return [_claim(stored.body) for stored in found if stored is not None]

    def _machine(self, claim: NodeClaim) -> Instance | None:
        return self._world.ec2.world.instances.get((claim.status.provider_id or "").rpartition("/")[2])

    def _claim_of_node(self, node: str) -> NodeClaim | None:
        return next((one for one in self._all_claims() if node and one.status.node_name == node), None)

    def _on(self, claim: NodeClaim) -> list[Pod]:
        pods = (_pod(stored.body) for stored in self._pods.objects.values())
        return [
            pod for pod in pods if claim.status.node_name and pod_words.node_of(pod) == claim.status.node_name
        ]

    def _guests(self, claim: NodeClaim, at_s: int) -> list[Guest]:
        """Who was there when the command was made; a disk is where its pod is."""
        zone = claim.metadata.labels.get(rules.ZONE)
        found = ((pod, self._app(pod)) for pod in self._on(claim) if self._counts(pod, at_s))
        return [Guest(pod.metadata.name, app, zone if app.disk else None) for pod, app in found]

    def _rooms(self, at_s: int) -> list[Room]:
        """Nodes that stay, with what is left of them by the pods that were there when the command was made."""
        found = []
        for claim in self._all_claims():
            stored = self._nodes.objects.get(("", claim.status.node_name or ""))
            if claim.metadata.deletion_timestamp is not None or _command(claim) is not None or stored is None:
                continue
            node = _node(stored.body)
            used = sum(self._app(pod).cpu_millis for pod in self._on(claim) if self._counts(pod, at_s))
            pool = next(
                p for p in self._storm.pools if p.name == claim.metadata.labels["karpenter.sh/nodepool"]
            )
            left = amounts.of(node.status["allocatable"])["cpu"] - used
            found.append(Room(node.metadata.name, left, node.metadata.labels, pool.tainted))
        return found

    def _counts(self, pod: Pod, at_s: int) -> bool:
        return pod_words.active(pod) and self._bound_s[pod.metadata.uid] < at_s

    def _app(self, pod: Pod) -> App:
        return self._apps[pod.metadata.labels["app"]]


def _listen(bucket: Bucket, see: Callable[[Change], None]) -> None:
    """From now on each write to a bucket is seen at once."""
    record = bucket.record

    def recorded(change: Change) -> None:
        record(change)
        see(change)

    bucket.record = recorded  # type: ignore[method-assign]


def _says(claim: NodeClaim, type_: str) -> bool:
    return conditions.holds(claim.status.conditions, type_)


def _command(claim: NodeClaim) -> dict[str, Any] | None:
    written = claim.metadata.annotations.get(COMMAND)
    return json.loads(written) if written else None


def _is_evicted(pod: Pod) -> bool:
    return bool(pod_words.condition(pod.status, "DisruptionTarget"))


def _is_ready(node: Node) -> bool:
    return pod_words.condition(node.status, "Ready").get("status") == "True"


_claim: Final = msgspec.json.Decoder(NodeClaim).decode
_pod: Final = msgspec.json.Decoder(Pod).decode
_node: Final = msgspec.json.Decoder(Node).decode
