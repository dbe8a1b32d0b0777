"""Instance profiles, found and never created: whether a class would get one.

Called by `account_reading`. `iam:GetRole` is not among the rights of Holdfast, so a role that may
not be read is taken as existing and noted in `unread`.
"""

from typing import Any

from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.nodeclass.profiles import Profile, Profiles


class ReadOnlyProfiles(Profiles):
    def __init__(self, aws: Calls, *arguments: Any, isolated_vpc: bool) -> None:
        super().__init__(aws, *arguments)
        self._calls = aws
        self._isolated_vpc = isolated_vpc
        self.existing: set[str] = set()  # profiles that IAM has, with a role
        self.unread: dict[str, errors.HoldfastError] = {}  # roles, with the error

    async def of(self, node_class: EC2NodeClass) -> Profile:
        name = node_class.spec.instance_profile
        if not name:
            return await super().of(node_class)
        if self._isolated_vpc:
            return Profile(name)
        found = await self._get(name)
        if found is None:
            return Profile("", f"IAM knows no instance profile {name}")
        if not found.roles:
            return Profile("", f"the instance profile {name} has no role")
        self.existing.add(name)
        return Profile(name)

    async def _ensure(self, node_class: EC2NodeClass, role: str) -> Profile:
        name = self.name(node_class, role)
        found = await self._get(name)
        if found is not None and role in found.roles:
            self.existing.add(name)
            return Profile(name)
        try:
            await self._calls.call(calls.IAM, "GetRole", RoleName=role)
        except errors.NotFound:
            return Profile("", f"IAM knows no role {role}")
        except errors.Unauthorized as error:
            self.unread[role] = error
        return Profile(name)
