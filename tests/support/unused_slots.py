"""Checks that no paid slot is free while an instance that could use it runs on demand or on spot.

Used by the judge of the fault tests and by the fault simulation. It observes each write to the simulated EC2 and to the
API server, and shares no code with the controllers. A slot is *unused* if EC2 counts it as available and no NodeClaim
holds it. A NodeClaim that waits for an instance to terminate holds a slot from the moment EC2 counts it.

`violations`: a NodeClaim without a slot was launched although an unused slot would have held its pods. Slots count that
Holdfast knows when the NodeClaim is created. It reads the counts of EC2 once a minute, so it may not know slots that
became free for another reason than its own writes less than `known_s` ago. While its own instances leave slots it reads
the counts for every plan, so it may not know those less than `known_own_s` ago. The slot must stay unused until a pod is
bound to the node, because one plan creates NodeClaims in any order. As long as other pods are pending that could use the
slot, it is undecided: a crash may have lost their NodeClaim.

`problems`: at the end, a node is not in a slot, an unused slot would hold its pods, and consolidation may move them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import msgspec

from holdfast.sim.api.storage.store import Bucket, Change, Store
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller
from holdfast.sim.cluster import pods as pod_words
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import Instance, Reservation
from holdfast.sim.ec2.service import Ec2
from slot_users import CLAIMS, CLASSES, Json, SlotUsers, accepts_reserved, is_open

SLOT: Final = "holdfast.dev/reservation-id"
TOKEN: Final = "holdfast.dev/launch-token"
WAITS: Final = "holdfast.dev/waits-for-instance"
# After EC2 refused a launch although its count showed a free slot, the reservation is not used for up to 16 minutes.
HELD_DOWN_S: Final = 16 * 60


@dataclass
class _Launch:
    """A NodeClaim without a slot, and the unused slots that would have held its pods."""

    unused: dict[str, int]  # by reservation
    others: frozenset[str]  # uids of pods that were pending


@dataclass(frozen=True)
class _Gain:
    """Slots of a reservation that became unused."""

    at_s: float
    count: int
    is_own: bool  # an instance of the cluster left them, or a NodeClaim


@dataclass
class _Slots:
    """The unused slots of a reservation, and those that became so recently."""

    unused: int = 0
    gains: list[_Gain] = field(default_factory=list)


@dataclass(eq=False)
class UnusedSlots:
    now_s: Callable[[], float]
    known_s: float  # Holdfast knows a slot that has been unused for this long
    known_own_s: float  # the same for a slot that an instance or a NodeClaim of the cluster left
    disturbed_s: Callable[[], float] = lambda: -inf  # when Holdfast last could not read the counts of EC2
    violations: list[str] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)
    _slots: defaultdict[str, _Slots] = field(default_factory=lambda: defaultdict(_Slots))  # by reservation
    _refused_s: dict[str, float] = field(default_factory=dict)  # by instance type, the last refused launch
    _claims: dict[str, Json] = field(default_factory=dict)
    _pods: dict[str, Pod] = field(default_factory=dict)  # by uid
    _launches: dict[str, _Launch] = field(default_factory=dict)  # by NodeClaim

    def start(self, store: Store, ec2: Ec2) -> None:
        self._ec2, self._users = ec2, SlotUsers(store, ec2.region)
        self._classes = store.bucket(CLASSES)
        subscribe(store.bucket(CLAIMS), self._on_claim)
        subscribe(store.bucket("/pods"), self._on_pod)
        put_instance, put_reservation, call = ec2.region.put_instance, ec2.region.put_reservation, ec2.call

        def changed_instance(instance: Instance, **changes: Any) -> Instance:
            changed = put_instance(instance, **changes)
            self._look()
            return changed

        def changed_reservation(reservation: Reservation, **changes: Any) -> Reservation:
            changed = put_reservation(reservation, **changes)
            is_own = changes.keys() == {"available"}
            if not is_own or changed.available > reservation.available:
                self._look(is_own=is_own)  # else the instance that takes the slot is written next
            return changed

        def called(operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
            try:
                answer = call(operation, params, caller)
            except ApiError:
                if operation == "CreateFleet" and not params.get("DryRun"):
                    self._refused(params.get("LaunchTemplateConfigs") or ())
                raise
            if operation == "CreateFleet":
                self._refused(one["LaunchTemplateAndOverrides"] for one in answer.get("Errors") or ())
            return answer

        ec2.region.put_instance = changed_instance  # type: ignore[method-assign]
        ec2.region.put_reservation = changed_reservation  # type: ignore[method-assign]
        ec2.call = called  # type: ignore[method-assign]
        self._look()

    # --- The state ------------------------------------------------------------------------------------

    def unused(self, reservation: Reservation) -> int:
        """How many slots EC2 counts as available that no NodeClaim holds."""
        if not is_open(reservation, self._ec2.region.now_s):
            return 0
        owned = {_instance_id(claim) for claim in self._claims.values()}
        launched = Counter(
            one.tags[TOKEN]
            for one in self._ec2.region.instances
            if one.held_reservation_id == reservation.id and one.id not in owned and TOKEN in one.tags
        )
        holds = Counter(
            _annotations(claim).get(TOKEN, "")
            for claim in self._claims.values()
            if self._holds(claim, reservation.id)
        )
        return reservation.available - sum((holds - launched).values())

    def _holds(self, claim: Json, reservation_id: str) -> bool:
        annotations = _annotations(claim)
        if annotations.get(SLOT) != reservation_id or _instance_id(claim):
            return False
        predecessor = self._ec2.region.instances.get(annotations.get(WAITS, "").rpartition("/")[2])
        return predecessor is None or predecessor.held_reservation_id != reservation_id

    def _look(self, *, is_own: bool = True) -> None:
        now_s = self.now_s()
        for reservation in self._ec2.region.reservations:
            slots, unused = self._slots[reservation.id], self.unused(reservation)
            gained, slots.unused = unused - slots.unused, unused
            slots.gains = [one for one in slots.gains if not self._is_known(one, now_s)]
            if gained > 0 and self._classes.objects:  # before, the first count shows it
                slots.gains.append(_Gain(now_s, gained, is_own))
            for launch in self._launches.values() if gained < 0 else ():
                if reservation.id in launch.unused:
                    launch.unused[reservation.id] += gained
        for name in list(self._launches):
            self._judge(name)

    def _is_known(self, gain: _Gain, now_s: float) -> bool:
        return now_s - gain.at_s >= (self.known_own_s if gain.is_own else self.known_s)

    def _known(self, reservation_id: str, now_s: float) -> int:
        """How many unused slots Holdfast certainly knows."""
        slots = self._slots[reservation_id]
        return slots.unused - sum(one.count for one in slots.gains if not self._is_known(one, now_s))

    def _on_claim(self, change: Change) -> None:
        claim = change.after.value()
        name = claim["metadata"]["name"]
        if change.deleted:
            self._claims.pop(name, None)
            self._launches.pop(name, None)
        else:
            self._claims[name] = claim
        if change.before is None and SLOT not in _annotations(claim):
            self._created(claim)
        self._look()

    def _on_pod(self, change: Change) -> None:
        pod = _pod(change.after.body)
        if change.deleted:
            self._pods.pop(pod.metadata.uid, None)
        else:
            self._pods[pod.metadata.uid] = pod
        for name in list(self._launches):
            self._judge(name)

    def _refused(self, launches: Any) -> None:
        for one in launches:
            overrides = one.get("Overrides") or ()
            for override in [overrides] if isinstance(overrides, dict) else overrides:
                self._refused_s[override.get("InstanceType", "")] = self.now_s()

    # --- The rule of launches -------------------------------------------------------------------------

    def _created(self, claim: Json) -> None:
        """A NodeClaim without a slot is created: finds the slots that it could have got."""
        now_s = self.now_s()
        unused = {
            one.id: self._known(one.id, now_s)
            for one in self._ec2.region.reservations
            if self._known(one.id, now_s) > 0
            and now_s - self.disturbed_s() >= self.known_s
            and now_s - self._refused_s.get(one.instance_type, -inf) >= HELD_DOWN_S + self.known_s
            and self._users.may_launch(claim, one)
            and self._users.fits_planned(claim, one)
        }
        pending = [pod for pod in self._pods.values() if pod_words.active(pod) and not pod_words.node_of(pod)]
        self.judged["NodeClaims without a slot"] += 1
        if unused and all(map(accepts_reserved, pending)):
            self.judged["NodeClaims without a slot next to an unused one"] += 1
            reservations = [self._ec2.region.reservations[id_] for id_ in unused]
            others = frozenset(
                pod.metadata.uid
                for pod in pending
                if any(self._users.is_large_enough(pod, one) for one in reservations)
            )
            self._launches[claim["metadata"]["name"]] = _Launch(unused, others)

    def _judge(self, name: str) -> None:
        launch, claim = self._launches[name], self._claims[name]
        launch.unused = {id_: count for id_, count in launch.unused.items() if count > 0}
        instance = self._instance(claim)
        pods = self._pods_on(claim)
        if not launch.unused or (instance is not None and instance.reservation_id):
            del self._launches[name]
        elif instance is not None and pods and self._are_others_bound(launch):
            del self._launches[name]
            for reservation in map(self._ec2.region.reservations.get, launch.unused):
                if (
                    reservation is not None
                    and self.unused(reservation) > 0  # its drain may have started
                    and all(map(accepts_reserved, pods))
                    and self._users.within_limit(claim, reservation, instance)
                ):
                    self.violations.append(self._text(name, instance, launch, reservation))

    def _are_others_bound(self, launch: _Launch) -> bool:
        """Whether all pods that were pending have a node."""
        pods = [self._pods.get(uid) for uid in launch.others]
        return all(pod is not None and pod_words.node_of(pod) for pod in pods)

    def _text(self, name: str, instance: Instance, launch: _Launch, reservation: Reservation) -> str:
        return (
            f"{name} was launched as {instance.id}, a {instance.instance_type} "
            f"{instance.lifecycle or 'on-demand'}, while {launch.unused[reservation.id]} slots of "
            f"{reservation.id} ({reservation.instance_type}) were unused"
        )

    # --- The rule of the settled state ----------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        self._ec2.advance()
        unused = [one for one in self._ec2.region.reservations if self.unused(one) > 0]
        for name, claim in self._claims.items() if unused else ():
            instance, pods = self._instance(claim), self._pods_on(claim)
            if instance is None or instance.reservation_id or not self._users.may_consolidate(claim, pods):
                continue
            for one in unused:
                if (
                    self._users.may_launch(claim, one)
                    and self._users.fits(pods, one, instance.zone_id)
                    and self._users.within_limit(claim, one, None)
                ):
                    yield (
                        f"NodeClaim {name} runs {instance.lifecycle or 'on demand'} ({instance.instance_type}), "
                        f"and {one.id} ({one.instance_type}) has {self.unused(one)} unused slots"
                    )

    def _instance(self, claim: Json) -> Instance | None:
        return self._ec2.region.instances.get(_instance_id(claim))

    def _pods_on(self, claim: Json) -> list[Pod]:
        node = (claim.get("status") or {}).get("nodeName")
        return [
            pod
            for pod in self._pods.values()
            if node and pod_words.node_of(pod) == node and pod_words.active(pod)
        ]


def subscribe(bucket: Bucket, callback: Callable[[Change], None]) -> None:
    """Calls `callback` after each write to a bucket from now on."""
    record = bucket.record

    def recorded(change: Change) -> None:
        record(change)
        callback(change)

    bucket.record = recorded  # type: ignore[method-assign]


def _annotations(claim: Json) -> dict[str, str]:
    return claim["metadata"].get("annotations") or {}


def _instance_id(claim: Json) -> str:
    return str((claim.get("status") or {}).get("providerID") or "").rpartition("/")[2]


_pod: Final = msgspec.json.Decoder(Pod).decode
