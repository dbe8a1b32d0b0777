"""The simulated IAM: instance profiles and their roles.

A profile has at most one role. The error codes for missing, existing and used objects are AWS's, because clients depend
on them.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from holdfast import ports
from holdfast.sim.aws.errors import ApiError, NoSuchOperation
from holdfast.sim.aws.pages import page
from holdfast.sim.aws.service import Caller

_PAGE: Final = 100
_INVALID_MARKER: Final = ApiError("ValidationError", "Invalid Marker")


@dataclass(slots=True)
class _Profile:
    name: str
    path: str
    id: str
    account_id: str
    created: dt.datetime
    tags: dict[str, str] = field(default_factory=dict)
    role: str | None = None


@dataclass(frozen=True, slots=True)
class _Saved:
    given: int
    profiles: list[_Profile]


class Iam:
    """Roles are fixed, because users create them; profiles are created and deleted."""

    def __init__(self, roles: Iterable[str], clock: ports.Clock) -> None:
        self._roles = frozenset(roles)
        self._clock = clock
        self._created = self._now()
        self._profiles: dict[str, _Profile] = {}
        self._given = 0  # ids

    def has_profile(self, name: str) -> bool:
        """EC2 checks this before a launch with a profile."""
        return name in self._profiles

    def role_of(self, name: str) -> str | None:
        """The role of a profile."""
        return self._profiles[name].role if name in self._profiles else None

    def profile(self, name: str) -> tuple[str, Mapping[str, str]] | None:
        """The path and the tags of a profile."""
        found = self._profiles.get(name)
        return (found.path, found.tags) if found else None

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(_Saved(self._given, list(self._profiles.values())))

    def load(self, data: bytes) -> None:
        saved = msgspec.msgpack.decode(data, type=_Saved)
        self._given = saved.given
        self._profiles = {profile.name: profile for profile in saved.profiles}

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match operation:
            case "GetInstanceProfile":
                return {"InstanceProfile": self._wire_profile(self._profile(params))}
            case "CreateInstanceProfile":
                return self._create(params, caller)
            case "DeleteInstanceProfile":
                return self._delete(params)
            case "AddRoleToInstanceProfile":
                return self._add_role(params)
            case "RemoveRoleFromInstanceProfile":
                return self._remove_role(params)
            case "ListInstanceProfiles":
                return self._list(params)
            case "ListInstanceProfilesForRole":
                return self._list_for_role(params)
            case "TagInstanceProfile":
                self._profile(params).tags |= _tags(params)
                return {}
            case "UntagInstanceProfile":
                profile = self._profile(params)
                profile.tags = {k: v for k, v in profile.tags.items() if k not in params["TagKeys"]}
                return {}
            case "ListInstanceProfileTags":
                return {"Tags": _tag_list(self._profile(params)), "IsTruncated": False}
            case "GetRole":
                return {"Role": self._role(self._known_role(params["RoleName"]), caller.account_id)}
            case _:
                raise NoSuchOperation(operation)

    def _create(self, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        name = params["InstanceProfileName"]
        if name in self._profiles:
            raise ApiError("EntityAlreadyExists", f"Instance Profile {name} already exists.", 409)
        self._given += 1
        self._profiles[name] = profile = _Profile(
            name,
            params.get("Path", "/"),
            f"AIPA{self._given:017d}",
            caller.account_id,
            self._now(),
            _tags(params),
        )
        return {"InstanceProfile": self._wire_profile(profile)}

    def _delete(self, params: Mapping[str, Any]) -> dict[str, Any]:
        profile = self._profile(params)
        if profile.role:
            raise ApiError(
                "DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.", 409
            )
        del self._profiles[profile.name]
        return {}

    def _add_role(self, params: Mapping[str, Any]) -> dict[str, Any]:
        profile = self._profile(params)
        role = self._known_role(params["RoleName"])
        if profile.role:
            raise ApiError(
                "LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", 409
            )
        profile.role = role
        return {}

    def _remove_role(self, params: Mapping[str, Any]) -> dict[str, Any]:
        profile = self._profile(params)
        role = self._known_role(params["RoleName"])
        if profile.role != role:
            raise ApiError(
                "NoSuchEntity", f"The role with name {role} is not in instance profile {profile.name}.", 404
            )
        profile.role = None
        return {}

    def _list(self, params: Mapping[str, Any]) -> dict[str, Any]:
        prefix = params.get("PathPrefix", "/")
        return self._paged((p for p in self._profiles.values() if p.path.startswith(prefix)), params)

    def _list_for_role(self, params: Mapping[str, Any]) -> dict[str, Any]:
        role = self._known_role(params["RoleName"])
        return self._paged((p for p in self._profiles.values() if p.role == role), params)

    def _paged(self, profiles: Iterable[_Profile], params: Mapping[str, Any]) -> dict[str, Any]:
        found, marker = page(
            profiles, lambda p: p.name, params.get("MaxItems", _PAGE), params.get("Marker"), _INVALID_MARKER
        )
        # Lists contain no tags.
        answers = [{k: v for k, v in self._wire_profile(p).items() if k != "Tags"} for p in found]
        more = {"IsTruncated": True, "Marker": marker} if marker else {"IsTruncated": False}
        return {"InstanceProfiles": answers, **more}

    def _profile(self, params: Mapping[str, Any]) -> _Profile:
        name = params["InstanceProfileName"]
        if name not in self._profiles:
            raise ApiError("NoSuchEntity", f"Instance Profile {name} cannot be found.", 404)
        return self._profiles[name]

    def _known_role(self, name: str) -> str:
        if name not in self._roles:
            raise ApiError("NoSuchEntity", f"The role with name {name} cannot be found.", 404)
        return name

    def _wire_profile(self, profile: _Profile) -> dict[str, Any]:
        return {
            "InstanceProfileName": profile.name,
            "InstanceProfileId": profile.id,
            "Path": profile.path,
            "Arn": f"arn:aws:iam::{profile.account_id}:instance-profile{profile.path}{profile.name}",
            "CreateDate": profile.created,
            "Roles": [self._role(profile.role, profile.account_id)] if profile.role else [],
            "Tags": _tag_list(profile),
        }

    def _role(self, name: str, account_id: str) -> dict[str, Any]:
        return {
            "RoleName": name,
            "RoleId": "AROA" + name.upper().ljust(17, "0")[:17],
            "Path": "/",
            "Arn": f"arn:aws:iam::{account_id}:role/{name}",
            "CreateDate": self._created,
            "AssumeRolePolicyDocument": "%7B%22Version%22%3A%222012-10-17%22%7D",
        }

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._clock.now_s(), dt.UTC)


def _tags(params: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in params.get("Tags", ())}


def _tag_list(profile: _Profile) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in profile.tags.items()]
