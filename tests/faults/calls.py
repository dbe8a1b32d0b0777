"""The name of a call, derived from its request: faults are aimed at a name, and coverage counts names.

Kubernetes: the verb and the resource ("watch pods", "patch nodeclaims/status"). AWS: the service and the operation
("ec2 CreateFleet"). Used by `proxy` for every request.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

from faults.wire import Request
from holdfast.sim.aws import wire as aws_wire
from holdfast.sim.aws.codec import protocols

KUBERNETES: Final = "kubernetes"
AWS: Final = "aws"

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_READS: Final = ("get ", "list ", "watch ")
_AWS_READS: Final = ("Describe", "Get", "List", "Receive")
_SHORTEST: Final = 3  # "/api/v1/pods"


@dataclass(frozen=True, slots=True, order=True)
class Call:
    endpoint: str
    name: str
    dry_run: bool = False

    @property
    def is_watch(self) -> bool:
        return self.name.startswith("watch ")

    @property
    def is_write(self) -> bool:
        if self.endpoint == KUBERNETES:
            return not self.name.startswith(_READS)
        return not self.dry_run and not self.name.split()[1].startswith(_AWS_READS)

    def __str__(self) -> str:
        return self.name + (" (dry run)" if self.dry_run else "")


def of_kubernetes(request: Request) -> Call:
    parts = urlsplit(request.target)
    steps = [step for step in parts.path.split("/") if step]
    if len(steps) < _SHORTEST:
        return Call(KUBERNETES, f"get /{'/'.join(steps)}")
    rest = steps[2:] if steps[0] == "api" else steps[3:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join([rest[0], *rest[2:]])
    if request.method != "GET":
        return Call(KUBERNETES, f"{_VERBS[request.method]} {resource}")
    if parse_qs(parts.query).get("watch") == ["true"]:
        return Call(KUBERNETES, f"watch {resource}")
    return Call(KUBERNETES, f"{'get' if len(rest) > 1 else 'list'} {resource}")


def of_aws(request: Request) -> Call:
    path, _, query = request.target.partition("?")
    headers = {name.lower(): value for name, value in request.headers}
    asked = aws_wire.Request(request.method, path, query, headers, request.body)
    scope = aws_wire.scope(asked)
    assert scope is not None, request
    dry_run = b"DryRun=true" in request.body
    return Call(AWS, f"{scope.service} {protocols.codec(scope.service).operation(asked)}", dry_run)
