"""Requests that store nothing: SelfSubjectReview, access reviews, TokenReview.

Called by `server`. An authenticated user may do everything, so the responses are short.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.sim.api.serving import answers
from holdfast.sim.api.serving.bodies import Reader
from holdfast.sim.api.serving.front import Response
from holdfast.sim.api.serving.routing import Call, User

Json = dict[str, Any]


def answer(call: Call, tokens: Mapping[str, User]) -> Response:
    answers.form_of(call.request)
    value = Reader(call.request).object(call.resource)
    value.setdefault("metadata", {})
    value.setdefault("spec", {})
    match call.resource.kind:
        case "SelfSubjectReview":
            value["status"] = {"userInfo": _info(call.user)}
        case "TokenReview":
            user = tokens.get(value["spec"].get("token", ""))
            known = {"authenticated": True, "user": _info(user)} if user else None
            value["status"] = known or {"authenticated": False, "error": "invalid bearer token"}
        case "SelfSubjectRulesReview":
            everything = ["*"]
            value["status"] = {
                "incomplete": False,
                "resourceRules": [{"verbs": everything, "apiGroups": everything, "resources": everything}],
                "nonResourceRules": [{"verbs": everything, "nonResourceURLs": everything}],
            }
        case _:
            value["status"] = {"allowed": True, "reason": "everybody who is let in may do everything"}
    return answers.plain(value, 201)


def _info(user: User) -> Json:
    return {"username": user.name, "groups": list(user.groups)}
