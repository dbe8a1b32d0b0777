"""A simulated AWS, and the controller's own client for it: botocore serializes, signs and parses every call.

A test creates an `Environment`, adds reservations without an API call, and checks what the controller reads.
"""

import asyncio
import base64
import functools
import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import botocore.session
import msgspec

from holdfast.api import conditions, kinds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.cloud.aws.client.calls import Calls, Clients, Inline
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.ports import Change, Recorder
from holdfast.runtime.cache import Caches
from holdfast.sim.aws import eks, iam, pricing, ssm
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.faults import Fault, NoFaults
from holdfast.sim.aws.fronts import before_send
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2 import setup as ec2_setup
from holdfast.sim.ec2.entities import Reservation
from holdfast.sim.ec2.images import Image
from holdfast.sim.ec2.service import Ec2
from manual_ports import CollectingRecorder, ManualClock, SeededIds

R = TypeVar("R")


def ca_bundle(name: str) -> str:
    """A CA bundle as kubeconfig files have it: PEM in base64."""
    body = base64.b64encode(name.encode()).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
    return base64.b64encode(pem.encode()).decode()


REGION = "us-west-2"
KUBERNETES = "1.36"
ACCOUNT = ec2_setup.ACCOUNT
OTHER = "444455556666"
CLUSTER_ENDPOINT = "https://example"
CA_BUNDLE = ca_bundle("the API server's")
ROLE = "KarpenterNodeRole-test"
ZONE_A, ZONE_B = "usw2-az2", "usw2-az1"  # us-west-2a and us-west-2b
TERMS = [{"tags": {"karpenter.sh/discovery": ec2_setup.CLUSTER}}]
FAMILIES = ("t3", "t4g", "m5", "m5a", "m6g", "c5", "c6a", "r5", "g5", "p5")
SIZES = ("medium", "large", "xlarge", "2xlarge", "4xlarge", "48xlarge")


def images(kubernetes: str = KUBERNETES) -> tuple[Image, ...]:
    """One image for every SSM parameter that AWS publishes."""
    return tuple(
        Image(
            id=f"ami-{n:017x}",
            name=f"{path.family}-{path.architecture}-{path.variant}-{kubernetes}",
            architecture=path.architecture,
            created_s=1_790_000_000 + n,
            platform="Windows" if path.family.startswith("Windows") else "Linux/UNIX",
        )
        for n, path in enumerate(ssm.ami_paths(kubernetes), start=1)
    )


def eks_cluster(name: str, **fields: Any) -> eks.Cluster:
    """A cluster as EKS describes it."""
    defaults: dict[str, Any] = {
        "region": REGION,
        "version": KUBERNETES,
        "endpoint": CLUSTER_ENDPOINT,
        "certificate_authority": CA_BUNDLE,
        "created_s": 0,
    }
    return eks.Cluster(name=name, **(defaults | fields))


def few(listing: TypeListing) -> TypeListing:
    """A listing with a few dozen types: building a complete catalog takes longer than most tests."""
    types = tuple(
        one
        for one in listing.types
        if one.name.partition(".")[0] in FAMILIES and one.name.partition(".")[2] in SIZES
    )
    return TypeListing(types, listing.zones_by_type)


class Environment:
    def __init__(
        self,
        *,
        rules: Sequence[faults.Fault] = (),
        settings: Settings | None = None,
        kubernetes: str = KUBERNETES,
        clock: Any = None,
        recorder: Recorder | None = None,
        clients: Callable[[Endpoint], Clients] | None = None,
        **setup: Any,
    ) -> None:
        """By default the clock moves only when a test moves it, and the recorder collects everything."""
        self.clock: ManualClock = clock or ManualClock()
        self.ids = SeededIds()
        self.records = CollectingRecorder()
        self.recorder = recorder or self.records
        defaults = replace(ec2_setup.plain(REGION, accounts=(ACCOUNT, OTHER)), images=images(kubernetes))
        self.ec2 = Ec2(
            clock=self.clock, ids=self.ids, setup=replace(defaults, **setup), rules=rules, throttled=False
        )
        paths = ssm.ami_paths(kubernetes)
        self.parameters = {path.path: f"ami-{n:017x}" for n, path in enumerate(paths, start=1)}
        self.iam = iam.Iam([ROLE, "OtherRole"], self.clock)
        self.endpoint = Endpoint(
            {
                "ec2": self.ec2 if rules else CachingEc2(self.ec2),
                "iam": self.iam,
                "pricing": price_list(),
                "ssm": ssm.Ssm(self.parameters, self.clock),
            },
            self.clock,
            accounts={"AKIATEST": ACCOUNT, "AKIAOTHER": OTHER},
        )
        self.calls = Calls(
            (clients or SharedClients)(self.endpoint),
            executor=Inline(),
            clock=self.clock,
            ids=self.ids,
            recorder=self.recorder,
        )
        self.caches = Caches((EC2NodeClass, NodeClaim), clock=self.clock)
        self._versions = itertools.count(1)
        self.settings = settings or Settings()
        self.kubernetes = kubernetes
        self.discovery = self.restarted()

    def restarted(self) -> Discovery:
        """A discovery with empty caches, as after a restart."""
        setup = Setup(
            cluster=Cluster(name=ec2_setup.CLUSTER, endpoint=""),
            kubernetes=lambda: self.kubernetes,
            settings=self.settings,
        )
        return Discovery(self.calls, setup, caches=self.caches, clock=self.clock, recorder=self.recorder)

    def watched(self, obj: Object) -> None:
        """Puts an object into the watch caches of the controller."""
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(next(self._versions)))
        self.caches.of(type(obj)).apply(Change("MODIFIED", msgspec.structs.replace(obj, metadata=meta)))

    def reserve(
        self, instance_type: str = "m5.large", total: int = 2, zone_id: str = ZONE_A, **fields: Any
    ) -> Reservation:
        defaults = {"owner": ACCOUNT}
        return control.add_reservation(
            self.ec2.region, instance_type=instance_type, zone_id=zone_id, total=total, **(defaults | fields)
        )

    def node_class(self, name: str = "default", **spec: Any) -> EC2NodeClass:
        """A class whose selectors match resources of the simulated account."""
        defaults = {
            "role": ROLE,
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": TERMS,
            "securityGroupSelectorTerms": TERMS,
        }
        status = spec.pop("status", {})
        document = {
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
            "spec": {key: value for key, value in (defaults | spec).items() if value is not None},
            "status": status,
        }
        parsed = kinds.from_plain(document, EC2NodeClass)
        assert isinstance(parsed, EC2NodeClass)
        return parsed

    def resolve(self, node_class: EC2NodeClass) -> EC2NodeClass:
        """The class with the patched status, as the API server would store it."""
        self.watched(node_class)
        patch = run(self.discovery.resolve(node_class))
        body = to_wire(node_class)
        status = {**body.get("status", {}), **patch}
        body["status"] = {key: value for key, value in status.items() if value is not None}
        parsed = kinds.from_plain(body, EC2NodeClass)
        assert isinstance(parsed, EC2NodeClass)
        self.watched(parsed)
        return parsed

    def selecting(self, *terms: dict[str, Any], **spec: Any) -> EC2NodeClass:
        """A resolved class with these reservation terms."""
        return self.resolve(self.node_class(capacityReservationSelectorTerms=list(terms), **spec))

    def asked(self, operation: str) -> int:
        """How often an operation was called, by the log of the simulated AWS."""
        return sum(call.operation == operation for call in self.endpoint.log)


class CachingEc2:
    """EC2 with cached lists of instance types: they are the same in every environment and slow to compute."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        if operation not in ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings"):
            return self._ec2.call(operation, params, caller)
        key = f"{operation} {params!r}"
        if key not in _cached_answers():
            _cached_answers()[key] = self._ec2.call(operation, params, caller)
        return _cached_answers()[key]


@functools.cache
def price_list() -> pricing.Pricing:
    """It has no state, so all environments share it."""
    return pricing.Pricing([REGION])


@functools.cache
def _cached_answers() -> dict[str, dict[str, Any]]:
    return {}


class SharedClients(Clients):
    """Clients that all environments share, because creating one is slow. Each call reaches its own environment."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(REGION)
        self._endpoint = endpoint

    def get(self, service: str) -> Any:
        switch, clients = _shared()
        switch.endpoint = self._endpoint
        return clients.get(service)


class Switch:
    """Sends the calls of the shared clients to the endpoint of the current environment."""

    endpoint: Endpoint

    def answer(self, request: Any, **_: object) -> Any:
        return before_send.BeforeSend(self.endpoint).answer(request)

    def session(self) -> Any:
        session = botocore.session.Session()
        session.set_credentials("AKIATEST", "secret")
        session.register("before-send", self.answer)
        return session


@functools.cache
def _shared() -> tuple[Switch, Clients]:
    switch = Switch()
    return switch, Clients(REGION, switch.session)


def run(work: Coroutine[Any, Any, R]) -> R:
    return asyncio.run(work)


def condition(node_class: EC2NodeClass, name: str) -> tuple[str, str, str]:
    found = conditions.find(node_class.status.conditions, name)
    assert found is not None, f"condition {name} is missing"
    return found.status, found.reason or "", found.message or ""


def listed(node_class: EC2NodeClass) -> list[str]:
    return [entry.id for entry in node_class.status.capacity_reservations]


class LostOnce(NoFaults):
    """Loses the answer of the first call of an operation, after the call took effect."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._left = 1

    def fault(self, _: str, operation: str, __: Mapping[str, Any]) -> Fault | None:
        if operation != self._operation or not self._left:
            return None
        self._left -= 1
        return Fault.LOST
