"""What happens in a simulation at a given time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes a Deployment, for example its replicas."""

    namespace: str
    deployment: str
    change: Json


@dataclass(frozen=True, slots=True)
class Create:
    document: Json
    unless_running: str = ""  # the CronJob whose last Job must be over before


@dataclass(frozen=True, slots=True)
class Delete:
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Action:
    at_s: int
    what: Patch | Create | Delete
