"""The simulated AWS with the Cloud port of Holdfast: launches, and the resulting state of EC2."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from aws_environment import ACCOUNT, CA_BUNDLE, CLUSTER_ENDPOINT, REGION, Environment, run
from builders import requirement
from holdfast import ports
from holdfast.api import kinds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import type_listing
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.cloud.aws.launch.templates import LaunchContext
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.provider import Aws
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType
from holdfast.ports import LaunchRequest
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller, Service
from holdfast.sim.ec2 import entities
from holdfast.sim.ec2.setup import CLUSTER
from objects import nodeclaim

SMALL = ("m5.large", "m5.xlarge")
JOINED = Cluster(name=CLUSTER, endpoint=CLUSTER_ENDPOINT, ca_bundle=CA_BUNDLE, service_cidr="10.96.0.0/16")
_LISTINGS: list[TypeListing] = []


def capacity_type(*values: str) -> dict[str, Any]:
    return requirement("karpenter.sh/capacity-type", "In", *values)


def resolve(env: "LaunchEnvironment", node_class: EC2NodeClass) -> EC2NodeClass:
    """Resolves a class through the Cloud port, and returns it as the API server would store it."""
    body = to_wire(node_class)
    env.watched(node_class)
    patch = run(env.cloud.resolve(node_class))
    status = {**body.get("status", {}), **patch}
    body["status"] = {key: value for key, value in status.items() if value is not None}
    parsed = kinds.from_plain(body, EC2NodeClass)
    assert isinstance(parsed, EC2NodeClass)
    env.watched(parsed)
    return parsed


class LaunchEnvironment(Environment):
    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._numbers = itertools.count(1)
        self.cloud: ports.Cloud = self.new_process()

    def new_process(self, around: LaunchContext | None = None, **more: Any) -> Aws:
        """A Cloud port with empty caches, as after a crash."""
        self.discovery = self.restarted()
        self.discovery._types._read = self._listing
        self.cloud = Aws(
            self.calls,
            self.discovery,
            around or LaunchContext(cluster=JOINED, region=REGION),
            clock=self.clock,
            ids=self.ids,
            recorder=self.recorder,
            **more,
        )
        return self.cloud

    async def _listing(self) -> TypeListing:
        """The instance types of the region, cached across environments: reading them takes longer than a launch."""
        if not _LISTINGS:
            _LISTINGS.append(await type_listing.read(self.calls))
        return _LISTINGS[0]

    # --- Launch requests ------------------------------------------------------------------------------

    def claim(self, *requirements: dict[str, Any], **fields: Any) -> NodeClaim:
        name = f"claim-{next(self._numbers)}"
        labels = {"karpenter.sh/nodepool": "default"}
        return nodeclaim(name, {"labels": labels}, requirements=list(requirements), **fields)

    def types(self, node_class: EC2NodeClass, *names: str) -> tuple[InstanceType, ...]:
        by_name = {one.name: one for one in run(self.cloud.instance_types(node_class))}
        return tuple(by_name[name] for name in names or SMALL)

    def requests(
        self,
        node_class: EC2NodeClass,
        *requirements: dict[str, Any],
        count: int = 1,
        slot: str | None = None,
        token: str | None = None,
        types: Sequence[str] = SMALL,
    ) -> list[LaunchRequest]:
        """Launch requests of equal claims, with one shared token."""
        instance_types = self.types(node_class, *types)
        shared = token or self.ids.token()
        return [
            LaunchRequest(self.claim(*requirements), node_class, shared, slot, instance_types)
            for _ in range(count)
        ]

    def request(
        self, node_class: EC2NodeClass, types: tuple[InstanceType, ...], *requirements: dict[str, Any]
    ) -> LaunchRequest:
        """A launch request of one claim, with its own token."""
        return LaunchRequest(self.claim(*requirements), node_class, self.ids.token(), None, types)

    # --- Calls ----------------------------------------------------------------------------------------

    def launch(
        self, requests: Sequence[LaunchRequest], owned: Sequence[str] = ()
    ) -> list[Instance | Exception]:
        return list(run(self.cloud.launch(requests, owned=owned)))

    def one(self, node_class: EC2NodeClass, *requirements: dict[str, Any], **fields: Any) -> Instance:
        """Launches one instance. The launch must succeed."""
        (instance,) = self.launch(self.requests(node_class, *requirements, **fields))
        assert isinstance(instance, Instance), instance
        return instance

    def calls_ec2(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Calls EC2 with the credentials of the account, as another user of the account does."""
        return self.ec2.call(operation, parameters, Caller(ACCOUNT))

    def refuses(self, **fields: Any) -> None:
        self.endpoint.services = {**self.endpoint.services, "ec2": RefusesOnce(self.ec2, **fields)}

    # --- State of EC2 ---------------------------------------------------------------------------------

    def described(self) -> tuple[Instance, ...]:
        """All instances, as the Cloud port describes them."""
        return run(self.cloud.instances())

    @property
    def ec2_instances(self) -> list[entities.Instance]:
        self.ec2.advance()
        return list(self.ec2.region.instances)

    def ec2_instance(self, instance: Instance) -> entities.Instance:
        self.ec2.advance()
        return self.ec2.region.instances[instance.provider_id.rpartition("/")[2]]

    def template(self, instance: Instance) -> dict[str, Any]:
        """The data of the launch template of an instance."""
        template_id = self.ec2_instance(instance).tags["aws:ec2launchtemplate:id"]
        return self.ec2.region.templates[template_id].versions[0]

    def free(self, reservation: entities.Reservation) -> int:
        self.ec2.advance()
        return self.ec2.region.reservations[reservation.id].available

    def fleets(self) -> list[Mapping[str, Any]]:
        """The CreateFleet requests, in order."""
        return [call.params for call in self.endpoint.log if call.operation == "CreateFleet"]


class RefusesOnce:
    """EC2 that reports in its first fleet answers that a reservation is full although it is not."""

    def __init__(
        self,
        service: Service,
        times: int = 1,
        code: str = "ReservationCapacityExceeded",
        *,
        whole: bool = False,
    ) -> None:
        """`whole`: the call itself fails, instead of each of its pools."""
        self._service = service
        self._left = times
        self._code = code
        self._whole = whole

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        if operation != "CreateFleet" or not self._left:
            return self._service.call(operation, params, caller)
        self._left -= 1
        if self._whole:
            raise ApiError(self._code, "not this time")
        overrides = [o for config in params["LaunchTemplateConfigs"] for o in config["Overrides"]]
        errors = [
            {
                "LaunchTemplateAndOverrides": {"Overrides": override},
                "Lifecycle": "on-demand",
                "ErrorCode": self._code,
                "ErrorMessage": "not this time",
            }
            for override in overrides
        ]
        return {"FleetId": "fleet-refused", "Instances": [], "Errors": errors}
