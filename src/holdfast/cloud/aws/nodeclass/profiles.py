"""Creates, adopts and deletes the instance profiles of classes that set a role.

Called by `discovery`. The name of a profile is derived from the region, the class and the role, so that the calls are
idempotent and a profile from before a crash is found again. Karpenter's names are random: a profile that the status of
the class names is kept if it has the role, so that a cluster that moves from Karpenter to Holdfast has one profile per
class. Profiles of a class have the same path. A role that does not exist is tried again only after a while, and its profile is deleted. An unused profile
is deleted only if it has Holdfast's tag, is old, and was unused for ten minutes: a launch in progress may use it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, ports
from holdfast.api import aws as aws_names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.client import answers, calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.sources import Answers
from holdfast.cloud.aws.nodeclass.cluster import Cluster

CHECK_AGAIN_S: Final = 900.0
NO_ROLE_AGAIN_S: Final = 60.0
YOUNG_S: Final = 3600
UNUSED_S: Final = 600
_PROFILE_WORDS: Final = "Instance Profile"  # IAM has one error code for a missing role and a missing profile
_NAME_LONGEST: Final = 128
_HASH_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class Profile:
    """The name of the profile, or why there is none."""

    name: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Listed:
    """A profile, as IAM returns it."""

    name: str
    roles: Sequence[str]
    created_s: int
    path: str


class Profiles:
    def __init__(self, aws: Calls, clock: ports.Clock, cluster: Cluster) -> None:
        self._aws = aws
        self._cluster = cluster.name
        self._tags = cluster.tags
        self._root = f"/{cluster.ownership.profile_root}/{aws.region}/{cluster.name}/"
        self._checked = Answers[tuple[str, str], Profile](clock)
        self._unused_s: dict[str, int] = {}  # since when it is unused, by name

    async def of(self, node_class: EC2NodeClass) -> Profile:
        """The profile for the class's instances. Calls IAM only if the last check is long enough ago."""
        spec = node_class.spec
        if spec.instance_profile:
            return Profile(spec.instance_profile)
        role = (spec.role or "").rpartition("/")[2]  # IAM expects the name without the path
        for name in (self.name(node_class, role), node_class.status.instance_profile or ""):
            self._unused_s.pop(name, None)
        return await self._checked.get(
            (_uid(node_class), role),
            lambda found: NO_ROLE_AGAIN_S if found.problem else CHECK_AGAIN_S,
            lambda: self._ensure(node_class, role),
        )

    async def release(self, node_class: EC2NodeClass) -> None:
        """Deletes every profile of a class. Idempotent."""
        for listed in await self._below(self.path(node_class)):
            await self._delete(listed.name, listed.roles)

    async def collect(self, in_use: AbstractSet[str]) -> None:
        """Deletes unused profiles of this cluster: those of deleted classes and of earlier roles. New profiles are
        kept: the status of their class may not have them yet."""
        now_s = self._aws.ec2_clock.now_s()
        unused = {
            listed.name: listed
            for listed in await self._below(self._root)
            if listed.name not in in_use and now_s - listed.created_s >= YOUNG_S
        }
        self._unused_s = {name: self._unused_s.get(name, now_s) for name in unused}
        for name, listed in unused.items():
            if now_s - self._unused_s.get(name, now_s) < UNUSED_S or not await self._is_ours(name):
                continue
            for role in listed.roles:
                self._checked.discard((listed.path.rstrip("/").rpartition("/")[2], role))
            await self._delete(name, listed.roles)

    async def _is_ours(self, name: str) -> bool:
        """Whether the profile has Holdfast's tag: Karpenter's profiles have the same path. Lists do not return tags."""

        def tags(answer: Mapping[str, Any]) -> dict[str, str]:
            return {tag["Key"]: tag["Value"] for tag in answer["InstanceProfile"].get("Tags", ())}

        try:
            found = await self._aws.read(calls.IAM, "GetInstanceProfile", tags, InstanceProfileName=name)
        except errors.NotFound:
            return False
        return found.get(aws_names.HOLDFAST_TAG) == self._cluster

    def path(self, node_class: EC2NodeClass) -> str:
        return f"{self._root}{_uid(node_class)}/"

    def name(self, node_class: EC2NodeClass, role: str) -> str:
        identity = f"{self._aws.region}/{_uid(node_class)}/{role}"
        digest = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:_HASH_BYTES])
        end = f"_{digest}"
        return self._cluster[: _NAME_LONGEST - len(end)] + end

    async def _ensure(self, node_class: EC2NodeClass, role: str) -> Profile:
        name, current = self.name(node_class, role), node_class.status.instance_profile
        if current and current != name:
            listed = await self._get(current)
            if listed is not None and listed.path == self.path(node_class) and role in listed.roles:
                return Profile(current)
        found = await self._get(name)
        roles = None if found is None else found.roles
        if roles is None:
            await self._create(node_class, name)
        if role in (roles or ()):
            return Profile(name)
        for other in roles or ():  # an instance profile can have only one role
            await self._aws.call(
                calls.IAM, "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=other
            )
        try:
            await self._aws.call(
                calls.IAM, "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role
            )
        except errors.NotFound as error:
            if _PROFILE_WORDS in str(error):
                raise errors.NotReady(f"IAM does not know profile {name} yet, which was just made") from error
            await self._delete(name, ())
            return Profile("", f"IAM has no role {role}")
        return Profile(name)

    async def _get(self, name: str) -> _Listed | None:
        """The profile; None if it does not exist."""
        try:
            return await self._aws.read(
                calls.IAM,
                "GetInstanceProfile",
                lambda answer: _listed(answer["InstanceProfile"]),
                InstanceProfileName=name,
            )
        except errors.NotFound:
            return None

    async def _create(self, node_class: EC2NodeClass, name: str) -> None:
        # The class tag is the same for classes of either group: the IAM policy requires it, and Karpenter finds profiles
        # by their path alone.
        tags = {
            **node_class.spec.tags,
            **self._tags,
            aws_names.EC2NODECLASS: node_class.metadata.name,
            aws_names.HOLDFAST_TAG: self._cluster,
        }
        try:
            await self._aws.call(
                calls.IAM,
                "CreateInstanceProfile",
                InstanceProfileName=name,
                Path=self.path(node_class),
                Tags=[{"Key": key, "Value": tags[key]} for key in sorted(tags)],
            )
        except errors.AlreadyExists:
            return  # an earlier call created it, and its response was lost

    async def _delete(self, name: str, roles: Sequence[str]) -> None:
        for role in roles:
            await self._gone("RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role)
        await self._gone("DeleteInstanceProfile", InstanceProfileName=name)

    async def _gone(self, operation: str, **parameters: Any) -> None:
        try:
            await self._aws.call(calls.IAM, operation, **parameters)
        except errors.NotFound:
            return

    async def _below(self, path: str) -> list[_Listed]:
        return await self._aws.pages(
            calls.IAM,
            "ListInstanceProfiles",
            "InstanceProfiles",
            marker="Marker",
            parse=_listed,
            PathPrefix=path,
        )


def _uid(node_class: EC2NodeClass) -> str:
    return node_class.metadata.uid or node_class.metadata.name


def _listed(raw: Mapping[str, Any]) -> _Listed:
    roles = [role["RoleName"] for role in raw["Roles"]]
    return _Listed(raw["InstanceProfileName"], roles, answers.epoch_s(raw["CreateDate"]), raw["Path"])
