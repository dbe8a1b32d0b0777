"""Checks what must hold while faults are injected, from the state of the simulated EC2 and of the API server.

It wraps both servers, so it receives each call in the order in which the call takes effect. `violations` are events
that must never happen; `problems` describe what is not settled yet, and must be empty at the end. The controller under
test is not queried.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import msgspec

from faults.calls import Call
from faults.proxy import REPLICA_HEADER
from holdfast.runtime import lease
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.front import Request, Response
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller, Service
from holdfast.sim.cloud import Cloud
from holdfast.sim.ec2.entities import Instance
from unused_slots import UnusedSlots

ACCESS_KEY: Final = "AKIAREPLICA"  # followed by the number of the replica
OVERSOLD: Final = "ReservationCapacityExceeded"
REVISION: Final = "example.com/revision"
_READS: Final = ("Describe", "Get", "List", "Receive")
_LEASE: Final = ("kube-system", lease.NAME)
_LEASES: Final = "coordination.k8s.io/leases"
_FREE: Final = ("/leases", "/events")  # resources that a replica writes without holding the Lease
_ENDED: Final = ("Succeeded", "Failed")
# Holdfast reads the counts of reservations once a minute, and a leader that is paused for half a minute between a plan
# and its writes continues with the plan.
KNOWN_S: Final = 60 + 30 + 15
_READS_OF_SLOTS: Final = ("ec2 DescribeCapacityReservations", "ec2 DescribeInstances")

Json = dict[str, Any]


@dataclass(frozen=True)
class Write:
    """One write, as it arrived at a server."""

    at_s: float
    replica: int
    what: str
    holder: int  # the replica that held the Lease then; 0: none


@dataclass(eq=False)
class Judge:
    now_s: Callable[[], float]  # seconds on a steady clock
    wanted: dict[str, int] = field(default_factory=dict)  # pods that must run, by app
    revision: str = ""  # the tag that every instance must have
    violations: list[str] = field(default_factory=list)
    cloud_writes: list[Write] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)  # instance ids, in order
    refused: Counter[str] = field(default_factory=Counter)  # error codes of launches
    holders: list[tuple[float, int]] = field(default_factory=list)  # times, and the new holder of the Lease
    _server: ApiServer | None = None
    _cloud: Cloud | None = None
    _replicas: dict[str, int] = field(default_factory=dict)  # by the identity that is in the Lease
    _unread_s: float = -inf  # when a read of the counts was last damaged

    def __post_init__(self) -> None:
        self.unused = UnusedSlots(self.now_s, KNOWN_S, KNOWN_S, lambda: self._unread_s, self.violations)

    # --- In front of the servers ------------------------------------------------------------------------

    def around(self, server: Any) -> "Judge":
        self._server = server
        return self

    def observe(self, cloud: Cloud) -> None:
        assert self._server is not None
        self._cloud = cloud
        self.unused.start(self._server.registry.store, cloud.ec2)
        services: Any = cloud.endpoint.services
        for name in services:
            services[name] = _Observed(name, services[name], self)

    def damaged(self, call: Call) -> None:
        """A fault is injected into a call, or ends."""
        if call.name in _READS_OF_SLOTS:
            self._unread_s = self.now_s()

    async def handle(self, request: Request) -> Response:
        assert self._server is not None
        replica = int(request.headers.get(REPLICA_HEADER, "0"))
        if replica and request.method != "GET":
            if "/leases" in request.path:
                self._note_identity(request, replica)
            elif not any(free in request.path for free in _FREE) and self.holder != replica:
                self.violations.append(
                    f"replica {replica} wrote {request.method} {request.path} while {self._holder_text()} held the Lease"
                )
        response = await self._server.handle(request)
        if replica and "/leases" in request.path:
            self._note_holder()
        return response

    def _note_identity(self, request: Request, replica: int) -> None:
        body = msgspec.json.decode(request.body) if request.body else {}
        identity = (body.get("spec") or {}).get("holderIdentity")
        if identity:
            self._replicas[identity] = replica

    def _note_holder(self) -> None:
        if not self.holders or self.holders[-1][1] != self.holder:
            self.holders.append((self.now_s(), self.holder))

    @property
    def holder(self) -> int:
        """The replica that holds the Lease; 0: none."""
        found = next((o for o in self.objects(_LEASES) if _key(o) == _LEASE), {})
        return self._replicas.get((found.get("spec") or {}).get("holderIdentity") or "", 0)

    def _holder_text(self) -> str:
        return f"replica {self.holder}" if self.holder else "no replica"

    def before_aws(self, service: str, operation: str, params: Mapping[str, Any], caller: Caller) -> None:
        if (
            operation.startswith(_READS)
            or params.get("DryRun")
            or not caller.access_key.startswith(ACCESS_KEY)
        ):
            return
        replica = int(caller.access_key.removeprefix(ACCESS_KEY))
        self.cloud_writes.append(Write(self.now_s(), replica, f"{service} {operation}", self.holder))
        if self.holder != replica:
            self.violations.append(
                f"replica {replica} called {service} {operation} while {self._holder_text()} held the Lease"
            )
        if operation == "TerminateInstances":
            for instance_id in params["InstanceIds"]:
                self._terminates(instance_id)

    def after_aws(self, operation: str, answer: Mapping[str, Any]) -> None:
        if operation == "CreateFleet":
            self.launched += [i for one in answer.get("Instances") or () for i in one["InstanceIds"]]
            for error in answer.get("Errors") or ():
                self._launch_refused(str(error["ErrorCode"]))
        elif operation == "RunInstances":
            self.launched += [one["InstanceId"] for one in answer.get("Instances") or ()]

    def refused_aws(self, operation: str, code: str) -> None:
        if operation in ("CreateFleet", "RunInstances") and code != "DryRunOperation":
            self._launch_refused(code)

    def _launch_refused(self, code: str) -> None:
        self.refused[code] += 1
        if code == OVERSOLD:
            self.violations.append("a launch into a reservation that was full: it was oversold")

    def _terminates(self, instance_id: str) -> None:
        """Every pod on the node must have finished, or was evicted or deleted before."""
        for node in self.objects("/nodes"):
            if str(node["spec"].get("providerID", "")).endswith(f"/{instance_id}"):
                for pod in self._pods_on(node["metadata"]["name"]):
                    self.violations.append(
                        f"{instance_id} was terminated while pod {pod['metadata']['name']} ran on its node "
                        "and had not been evicted"
                    )

    def _pods_on(self, node: str) -> Iterator[Json]:
        for pod in self.objects("/pods"):
            owners = pod["metadata"].get("ownerReferences") or ()
            if (
                pod["spec"].get("nodeName") == node
                and pod["metadata"].get("deletionTimestamp") is None
                and (pod.get("status") or {}).get("phase") not in _ENDED
                and not any(owner["kind"] == "DaemonSet" for owner in owners)
            ):
                yield pod

    # --- What is not settled ----------------------------------------------------------------------------

    def objects(self, bucket: str) -> list[Json]:
        """Everything of one kind, as it is stored, such as "/pods" or "karpenter.sh/nodeclaims"."""
        assert self._server is not None
        return [stored.value() for stored in self._server.registry.store.bucket(bucket).sorted()]

    @property
    def instances(self) -> list[Instance]:
        """Instances that are pending or running."""
        assert self._cloud is not None
        self._cloud.ec2.advance()
        return [one for one in self._cloud.ec2.region.instances if one.is_pending_or_running]

    def problems(self) -> list[str]:
        return [
            *self._pod_problems(),
            *self._pair_problems(),
            *self._slot_problems(),
            *self.unused.problems(),
        ]

    def _pod_problems(self) -> Iterator[str]:
        pods = [pod for pod in self.objects("/pods") if pod["metadata"].get("deletionTimestamp") is None]
        for app, wanted in self.wanted.items():
            own = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("app") == app]
            running = sum(_is_ready(pod) for pod in own)
            if running != wanted or len(own) != wanted:
                yield f"{app} has {running} of {wanted} pods running, {len(own)} in all"

    def _pair_problems(self) -> Iterator[str]:
        """Instances, NodeClaims and Nodes belong together, one to one, and none of them is being deleted."""
        claims, nodes = self.objects("karpenter.sh/nodeclaims"), self.objects("/nodes")
        others = [*self.objects("karpenter.sh/nodepools"), *self.objects("karpenter.k8s.aws/ec2nodeclasses")]
        for one in [*claims, *nodes, *others]:
            if one["metadata"].get("deletionTimestamp") is not None:
                yield f"{one['kind']} {one['metadata']['name']} is still being deleted"
        yield from self._claim_problems(claims)
        for node in nodes:
            if any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints") or ()):
                yield f"Node {node['metadata']['name']} is tainted as disrupted"
        yield from self._instance_problems(
            Counter(_instance((claim.get("status") or {}).get("providerID")) for claim in claims),
            Counter(_instance(node["spec"].get("providerID")) for node in nodes),
        )

    def _claim_problems(self, claims: list[Json]) -> Iterator[str]:
        instances = {instance.id for instance in self.instances}
        for claim in claims:
            name, status = claim["metadata"]["name"], claim.get("status") or {}
            conditions = status.get("conditions") or ()
            if _instance(status.get("providerID")) not in instances:
                yield f"NodeClaim {name} has no instance"
            elif not any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                missing = {c["type"]: c.get("reason") for c in conditions if c["status"] != "True"}
                yield f"NodeClaim {name} is not Ready: {missing}"

    def _instance_problems(self, of_claims: Counter[str], of_nodes: Counter[str]) -> Iterator[str]:
        instances = self.instances
        for instance in instances:
            if of_claims[instance.id] != 1:
                yield f"instance {instance.id} has {of_claims[instance.id]} NodeClaims"
            if of_nodes[instance.id] != 1:
                yield f"instance {instance.id} has {of_nodes[instance.id]} Nodes"
            is_default = instance.tags.get("karpenter.sh/nodepool") == "default"
            if is_default and self.revision and instance.tags.get(REVISION) != self.revision:
                yield f"instance {instance.id} is of an older revision of its EC2NodeClass"
        if len(instances) > sum(self.wanted.values()):  # the pods of a test are one to a node
            yield f"{len(instances)} instances for {sum(self.wanted.values())} pods"

    def _slot_problems(self) -> Iterator[str]:
        """No reservation has more instances than slots."""
        assert self._cloud is not None
        for reservation in self._cloud.ec2.region.reservations:
            inside = sum(one.reservation_id == reservation.id for one in self.instances)
            if inside > reservation.total:
                yield f"{reservation.id} has {inside} instances in {reservation.total} slots"

    def summary(self) -> str:
        return (
            f"instances {[one.id for one in self.instances]}, claims "
            f"{[c['metadata']['name'] for c in self.objects('karpenter.sh/nodeclaims')]}"
        )


@dataclass(frozen=True)
class _Observed:
    """A service of AWS that reports its calls to the judge."""

    name: str
    inner: Service
    judge: Judge

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> Json:
        self.judge.before_aws(self.name, operation, params, caller)
        try:
            answer = self.inner.call(operation, params, caller)
        except ApiError as error:
            self.judge.refused_aws(operation, error.code)
            raise
        self.judge.after_aws(operation, answer)
        return answer


def _key(document: Json) -> tuple[str, str]:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _instance(provider_id: str | None) -> str:
    return (provider_id or "").rpartition("/")[2]


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
