"""What must hold during a fault simulation, checked after every write to a NodeClaim, a pod or a node.

The harness runs it. The rules: no more nodes of a NodePool are disrupted at once than its budgets allow; a healthy node
is only deleted by a DisruptionCommand; its pods fit elsewhere, or the node is terminated first and its slot is held for
its replacement; consolidation never raises the cost and respects its cooldown; pods are evicted, within their
PodDisruptionBudgets, unless EC2 terminates the instance; no slot is held twice; no NodeClaim waits for a slot forever; and
nothing is launched on demand next to a free slot (`unused_slots`).
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

import kube_servers
from app_environment import AppEnvironment
from fault_simulation import rules
from fault_simulation.generate import App, FaultSchedule
from fault_simulation.rules import ConsolidationEvictions, EvictedPod, FreeCapacity
from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.api.storage.store import Change
from holdfast.sim.cluster import amounts
from holdfast.sim.cluster import pods as pod_words
from holdfast.sim.cluster.kinds import Node, Pod
from holdfast.sim.ec2 import faults as ec2
from holdfast.sim.ec2.entities import Instance
from unused_slots import UnusedSlots, subscribe

COMMAND: Final = "holdfast.dev/disruption-command"
SLOT: Final = "holdfast.dev/reservation-id"
TOKEN: Final = "holdfast.dev/launch-token"
WAITS: Final = "holdfast.dev/waits-for-instance"
CONSOLIDATION: Final = "Underutilized"
READS: Final = ("DescribeCapacityReservations", "DescribeInstances")  # of free slots
COUNTED_S: Final = 150  # counts are read once a minute, and faults delay them by another minute
# Counts are read for every plan while an instance leaves a slot. A plan takes up to 4 s and waits for others, and a fault
# delays a write by up to 20 s.
OWN_S: Final = 45
SETTLES_S: Final = 60  # after a disturbance, until the controller has observed it
WAITS_MAX_S: Final = 15 * 60  # ten minutes after the instance is terminated, and the delay by faults


class Watch:
    def __init__(self, schedule: FaultSchedule) -> None:
        self._schedule = schedule
        self._apps = {app.name: app for app in schedule.apps}
        self._disrupting: dict[str, str] = {}  # NodeClaims that are being disrupted, with their NodePools
        self._decided_s: dict[str, int] = {}  # commands by id; the controller's own clock may be wrong
        self._bound_s: dict[str, int] = {}  # pods by uid
        self._consolidation_evictions = ConsolidationEvictions()
        self._used_elsewhere_s = 0
        self._jumped_s = 0  # when the clock of the controller last jumped
        self._disturbed_s = 0  # the last change of a node that was not made by the controller
        self._found: dict[str, None] = {}  # in the order in which they were found
        self.exempt: set[str] = set()  # NodeClaims that a user deleted
        self.judged: Counter[str] = Counter()  # how often each rule was checked
        self.unused: UnusedSlots | None = None  # from `start` on

    def start(self, env: AppEnvironment) -> None:
        self._env = env
        store = env.server.registry.store
        self.unused = UnusedSlots(env.clock.now_s, COUNTED_S, OWN_S, self._uncounted_s, judged=self.judged)
        self.unused.start(store, env.ec2)
        self._claims, self._pods, self._nodes = map(
            store.bucket, ("karpenter.sh/nodeclaims", "/pods", "/nodes")
        )
        subscribe(self._claims, self._on_claim)
        subscribe(self._pods, self._on_pod)
        subscribe(self._nodes, self._on_node)

    def disturbed(self) -> None:
        """Records a change that no command could have taken into account."""
        self._disturbed_s = self._env.clock.now_s()

    def taken(self) -> None:
        """Records that another account used slots."""
        self._used_elsewhere_s = self._env.clock.now_s()

    def _uncounted_s(self) -> float:
        """When the counts of EC2 were last unreadable or stale, or the clock jumped."""
        now_s, start_s = self._env.clock.now_s(), int(kube_servers.START.timestamp())
        faults = [
            min(now_s, start_s + one.until_s)
            for one in self._schedule.ec2_faults
            if isinstance(one, ec2.OfCall) and one.operation in ("", *READS) and start_s + one.from_s <= now_s
        ]
        return max([self._jumped_s, *faults])

    def unused_now(self) -> list[str]:
        """Nodes that run on demand next to a free slot now."""
        return list(self.unused.problems()) if self.unused is not None else []

    def jumped(self) -> None:
        """Records that the clock of the controller jumped: the ages of counts and launches are wrong for a while."""
        self._jumped_s = self._env.clock.now_s()

    def problems(self, writes: list[str]) -> list[str]:
        """The violations so far, and those among the writes of the controller."""
        unused = self.unused.violations if self.unused is not None else ()
        return [*self._found, *self._deletions(writes), *unused]

    def _deletions(self, writes: list[str]) -> list[str]:
        """Pods may only be deleted, instead of evicted, where EC2 reclaims instances at a deadline."""
        if any(slots.block or slots.interruptible for slots in self._schedule.slots):
            return []
        deleted = [write for write in writes if write.startswith("DELETE") and "/pods/" in write]
        return [f"a pod was deleted instead of evicted: {write}" for write in deleted]

    # --- Writes ---------------------------------------------------------------------------------------

    def _on_claim(self, change: Change) -> None:
        claim = _claim(change.after.body)
        if command := _command(claim):
            self._decided_s.setdefault(command["id"], self._env.clock.now_s())
        before = _claim(change.before.body) if change.before else None
        self.see(claim, is_gone=change.deleted)
        was_deleting = before is not None and before.metadata.deletion_timestamp is not None
        if claim.metadata.deletion_timestamp is not None and not was_deleting:
            self._on_deletion(claim)
        if before is None and SLOT in claim.metadata.annotations and WAITS not in claim.metadata.annotations:
            self._on_slot_held(claim.metadata.annotations[SLOT])
        if _has_condition(claim, "InstanceTerminating") and not (
            before and _has_condition(before, "InstanceTerminating")
        ):
            self._on_termination(claim)

    def _on_pod(self, change: Change) -> None:
        pod = _pod(change.after.body)
        if pod_words.node_of(pod):
            self._bound_s.setdefault(pod.metadata.uid, self._env.clock.now_s())
        if _is_evicted(pod) and change.before is not None and not _is_evicted(_pod(change.before.body)):
            self._on_eviction(pod)

    def _on_node(self, change: Change) -> None:
        """A node that fails has no capacity for pods, although a command may have counted on it."""
        was_ready = change.before is not None and _is_ready(_node(change.before.body))
        if was_ready and not _is_ready(_node(change.after.body)):
            self.disturbed()

    # --- Rules ----------------------------------------------------------------------------------------

    def see(self, claim: NodeClaim, *, is_gone: bool) -> None:
        """Budgets of NodePools."""
        name, pool = claim.metadata.name, claim.metadata.labels["karpenter.sh/nodepool"]
        over = is_gone or _has_condition(
            claim, "InstanceTerminating"
        )  # those no longer count for a budget (D-10)
        if over or not _has_condition(claim, "DisruptionReason"):
            self._disrupting.pop(name, None)
            return
        self._disrupting[name] = pool
        count = Counter(self._disrupting.values())[pool]
        most = next(one.away_max for one in self._schedule.pools if one.name == pool)
        if count > most:
            self._report(f"{count} nodes of {pool} were being disrupted at once, of at most {most}")

    def _on_slot_held(self, id_: str) -> None:
        """A NodeClaim holds a slot: the reservation must have one free. Slots that other accounts used recently are not in
        the counts yet, and any instance may match an open reservation."""
        reservation, now_s = self._env.ec2.region.reservations[id_], self._env.clock.now_s()
        if reservation.criteria == "open" or now_s - self._used_elsewhere_s < COUNTED_S:
            return
        self.judged["slots that were given"] += 1
        inside = [one for one in self._env.ec2.region.instances if one.held_reservation_id == id_]
        launched = {one.tags.get(TOKEN) for one in inside}
        held = [
            claim.metadata.name
            for claim in self._all_claims()
            if claim.metadata.annotations.get(SLOT) == id_
            and not (claim.status.provider_id or WAITS in claim.metadata.annotations)
            and claim.metadata.annotations.get(TOKEN) not in launched
        ]
        if len(inside) + len(held) + reservation.elsewhere > reservation.total:
            self._report(
                f"{id_} of {reservation.total} has {reservation.elsewhere} others, {inside}, and is given to {held}"
            )

    def _on_deletion(self, claim: NodeClaim) -> None:
        """A NodeClaim is deleted: checks the command and whether its pods fit elsewhere."""
        command, instance = _command(claim), self._instance(claim)
        if command is None:
            self.disturbed()
            self.judged["gone without a command"] += 1
            if instance is not None and self._is_healthy(claim, instance):
                self._report(f"claim {claim.metadata.name} is deleted without a command")
            return
        at_s = self._decided_s[command["id"]]
        if at_s - self._disturbed_s < SETTLES_S or instance is None:
            return  # the cluster changed after the command was decided
        self.judged[f"gone: {command['reason']}"] += 1
        if command["reason"] == CONSOLIDATION:
            self._check_cost(claim, command)
        waiting_replacements = [
            one for one in self._replacements(command) if WAITS in one.metadata.annotations
        ]
        if waiting_replacements:
            self.judged["gone first"] += 1
            self._check_slot_is_held(claim, instance, waiting_replacements)
        elif not rules.all_fit(self._evicted_pods(claim, at_s), self._free_capacities(at_s)):
            self._report(f"pods of {claim.status.node_name} fit on no node when it is deleted: {command}")

    def _is_healthy(self, claim: NodeClaim, instance: Instance) -> bool:
        """Whether neither a user nor EC2 nor its node gave a reason to terminate it."""
        node = self._nodes.objects.get(("", claim.status.node_name or ""))
        node_deleting = node is None or _node(node.body).metadata.deletion_timestamp is not None
        in_block = instance.lifecycle not in ("", "spot")
        deleted_by_user = claim.metadata.name in self.exempt
        return instance.is_pending_or_running and _has_condition(claim, "Ready") and not (
            deleted_by_user or node_deleting or in_block or instance.silent or instance.impaired
        )  # fmt: skip

    def _check_cost(self, claim: NodeClaim, command: dict[str, Any]) -> None:
        setup = self._env.ec2.region.setup
        group = [one for one in self._all_claims() if (_command(one) or {}).get("id") == command["id"]]
        before = [self._instance(one) for one in group]
        after = [self._instance(one) for one in self._replacements(command)]
        cost_before, cost_after = (
            sum(rules.hourly_nano_usd(one, setup) for one in instances if one is not None)
            for instances in (before, after)
        )
        if cost_after > cost_before:
            self._report(
                f"consolidation of {claim.metadata.name} raises {cost_before} to {cost_after}: {command}"
            )

    def _check_slot_is_held(
        self, claim: NodeClaim, instance: Instance, waiting_replacements: list[NodeClaim]
    ) -> None:
        """A node is terminated before its replacement: exactly one replacement waits for its instance and holds its slot."""
        mine = [
            one for one in waiting_replacements if one.metadata.annotations[WAITS] == claim.status.provider_id
        ]
        if [one.metadata.annotations[SLOT] for one in mine] != [instance.reservation_id]:
            self._report(
                f"{claim.metadata.name} goes first, and its slot is not held by one claim: {waiting_replacements}"
            )

    def _on_termination(self, claim: NodeClaim) -> None:
        """Its instance is terminated: by the controller, only when no pods are left."""
        instance = self._instance(claim)
        if instance is None or instance.state_reason[0] != "Client.UserInitiatedShutdown":
            return
        self.judged["instances that were terminated"] += 1
        left = [
            pod.metadata.name
            for pod in self._on(claim)
            if not pod_words.is_terminating(pod)
            and not self._app(pod).tolerates  # those are not evicted (NC-29)
        ]
        if left:
            self._report(f"the instance of {claim.metadata.name} was terminated under {left}")

    def _on_eviction(self, pod: Pod) -> None:
        claim = self._claim_of_node(pod_words.node_of(pod))
        command = _command(claim) if claim is not None else None
        made, now_s = pod.metadata.creation_timestamp, self._env.clock.now_s()
        if command is not None and command["reason"] == CONSOLIDATION and made is not None:
            app = pod.metadata.labels["app"]
            self.judged["pods that consolidation moved"] += 1
            if self._consolidation_evictions.is_repeated(app, created_s=int(made.timestamp()), now_s=now_s):
                self._report(f"{pod.metadata.name} was moved again too soon: {command}")

    def look(self) -> None:
        """Checks how long NodeClaims have waited for a slot; called periodically."""
        for claim in self._all_claims():
            id_ = claim.metadata.annotations.get(WAITS, "").rpartition("/")[2]
            instance = self._env.ec2.region.instances.get(id_) if id_ else None
            gone_s = instance.ended_s if instance is not None else 0
            if gone_s and self._env.clock.now_s() - gone_s > WAITS_MAX_S:
                self._report(f"claim {claim.metadata.name} waits for the slot of {id_}, gone since {gone_s}")

    # --- State ----------------------------------------------------------------------------------------

    def _report(self, what: str) -> None:
        self._found[what] = None

    def _all_claims(self) -> Iterator[NodeClaim]:
        return (_claim(stored.body) for stored in self._claims.objects.values())

    def _replacements(self, command: dict[str, Any]) -> list[NodeClaim]:
        found = (self._claims.objects.get(("", name)) for name in command.get("replacements", ()))
        return [_claim(stored.body) for stored in found if stored is not None]

    def _instance(self, claim: NodeClaim) -> Instance | None:
        return self._env.ec2.region.instances.get((claim.status.provider_id or "").rpartition("/")[2])

    def _claim_of_node(self, node: str) -> NodeClaim | None:
        return next((one for one in self._all_claims() if node and one.status.node_name == node), None)

    def _on(self, claim: NodeClaim) -> list[Pod]:
        pods = (_pod(stored.body) for stored in self._pods.objects.values())
        return [
            pod for pod in pods if claim.status.node_name and pod_words.node_of(pod) == claim.status.node_name
        ]

    def _evicted_pods(self, claim: NodeClaim, at_s: int) -> list[EvictedPod]:
        """The pods that ran on the node when the command was decided; a volume is in the zone of its pod."""
        zone = claim.metadata.labels.get(rules.ZONE)
        found = ((pod, self._app(pod)) for pod in self._on(claim) if self._counts(pod, at_s))
        return [EvictedPod(pod.metadata.name, app, zone if app.disk else None) for pod, app in found]

    def _free_capacities(self, at_s: int) -> list[FreeCapacity]:
        """The nodes that are not deleted, with their free CPU when the command was decided."""
        found = []
        for claim in self._all_claims():
            stored = self._nodes.objects.get(("", claim.status.node_name or ""))
            if claim.metadata.deletion_timestamp is not None or _command(claim) is not None or stored is None:
                continue
            node = _node(stored.body)
            used = sum(self._app(pod).cpu_millis for pod in self._on(claim) if self._counts(pod, at_s))
            pool = next(
                p for p in self._schedule.pools if p.name == claim.metadata.labels["karpenter.sh/nodepool"]
            )
            left = amounts.of(node.status["allocatable"])["cpu"] - used
            found.append(FreeCapacity(node.metadata.name, left, node.metadata.labels, pool.tainted))
        return found

    def _counts(self, pod: Pod, at_s: int) -> bool:
        return pod_words.active(pod) and self._bound_s[pod.metadata.uid] < at_s

    def _app(self, pod: Pod) -> App:
        return self._apps[pod.metadata.labels["app"]]


def _has_condition(claim: NodeClaim, type_: str) -> bool:
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
