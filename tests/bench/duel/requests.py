"""Requests of one user in the audit log of a real kube-apiserver.

The log has a line when a request ends, and another when a watch starts; both have the id of the request.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

ACCEPTED: Final = 300


class Request(NamedTuple):
    verb: str
    resource: str  # with its subresource
    name: str
    code: int


def policy(user: str) -> dict[str, Any]:
    """Logs the requests of that user, without bodies."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [user]}, {"level": "None"}],
    }


def read(log: Path, offset: int) -> list[Request]:
    """The requests whose lines were written after `offset` bytes."""
    with log.open("rb") as opened:
        opened.seek(offset)
        return parse(opened.read().decode().splitlines())


def parse(lines: Iterable[str]) -> list[Request]:
    found: dict[str, Request] = {}
    for line in lines:
        if line:
            entry = json.loads(line)
            found[entry["auditID"]] = _request(entry)
    return list(found.values())


def by_verb(requests: Iterable[Request]) -> dict[str, int]:
    return dict(sorted(Counter(one.verb for one in requests).items()))


def evicted(requests: Iterable[Request]) -> list[str]:
    """The pods that the user evicted or deleted, each once."""
    found = {
        one.name
        for one in requests
        if (one.verb, one.resource) in {("create", "pods/eviction"), ("delete", "pods")}
        and one.code < ACCEPTED
    }
    return sorted(found)


def _request(entry: Mapping[str, Any]) -> Request:
    about = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
    code = int((entry.get("responseStatus") or {}).get("code", 0))
    return Request(str(entry["verb"]), resource, str(about.get("name", "")), code)
