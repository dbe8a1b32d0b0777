"""Subresources that are not a part of their object: scale, eviction, binding, finalize, tokens.

Called by `server`. `verbs` writes `status` and other parts of objects.
"""

from dataclasses import replace
from typing import Any, Final

from holdfast import names
from holdfast.ports import Ids
from holdfast.sim.api.schema import jsonpath, status
from holdfast.sim.api.schema.managed import Writer
from holdfast.sim.api.schema.resources import Resource
from holdfast.sim.api.schema.status import Cause, bad_request
from holdfast.sim.api.serving import answers, disruption, patch_requests
from holdfast.sim.api.serving.bodies import Reader
from holdfast.sim.api.serving.front import Response
from holdfast.sim.api.serving.routing import Call, User
from holdfast.sim.api.serving.verbs import Verbs, options_of
from holdfast.sim.api.storage.registry import Registry, Write
from holdfast.sim.api.storage.store import Stored

Json = dict[str, Any]

_SCALE: Final = ("autoscaling", "v1", "Scale")
_BINDING: Final = ("", "v1", "Binding")
_EVICTION: Final = ("policy", "v1", "Eviction")
_TOKEN: Final = ("authentication.k8s.io", "v1", "TokenRequest")
_TOKEN_S: Final = 3600
_TOPOLOGY: Final = (names.ZONE, names.REGION)


class Subresources:
    """Scale, eviction, binding, finalize and tokens."""

    def __init__(self, *, registry: Registry, verbs: Verbs, ids: Ids, tokens: dict[str, User]) -> None:
        self._registry = registry
        self._verbs = verbs
        self._ids = ids
        self._tokens = tokens

    def answer(self, call: Call) -> Response:
        answers.form_of(call.request)
        match call.subresource:
            case "scale":
                return self._scale(call)
            case "eviction":
                return self._evict(call)
            case "binding":
                return self._bind(call, call.name)
            case "token":
                return self._token(call)
            case "finalize":
                return self._finalize(call)
        return self._verbs.answer(call)

    def bind_by_name(self, call: Call) -> Response:
        """A Binding that is posted to the namespace and has the name of its pod."""
        pods = self._registry.resources.get("", "v1", "pods")
        assert pods is not None
        name = (Reader(call.request).object(call.resource).get("metadata") or {}).get("name", "")
        return self._bind(call._replace(resource=pods, name=name, subresource="binding"), name)

    def _scale(self, call: Call) -> Response:
        stored = self._registry.get(call.resource, call.key)
        if call.verb == "get":
            return answers.plain(_scale_of(call.resource, stored))
        reader = Reader(call.request)
        before = _scale_of(call.resource, stored)
        if call.verb == "patch":
            scales = patch_requests.scale_change(call, reader)
            wanted = scales(before)
        else:
            wanted = reader.of_kind(reader.plain(), _SCALE)
        version = (wanted.get("metadata") or {}).get("resourceVersion", "")
        if version and version != str(stored.version):
            raise status.modified(call.resource.group, call.resource.plural, call.name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            cause = Cause(
                "FieldValueInvalid", "spec.replicas", f"{replicas}: must be greater than or equal to 0"
            )
            raise status.invalid("autoscaling", "Scale", call.name, [cause])
        path = _replicas_path(call.resource)
        updated = self._registry.update(
            self._verbs.write(call), call.key, lambda old: _with(old, path, replicas)
        )
        return answers.plain(_scale_of(call.resource, updated))

    def _evict(self, call: Call) -> Response:
        reader = Reader(call.request)
        eviction = reader.of_kind(reader.plain(), _EVICTION)
        if eviction.get("metadata", {}).get("name", call.name) != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = options_of(eviction.get("deleteOptions") or {}, call.request, dry_run=call.dry_run)
        pod = self._registry.get(call.resource, call.key)
        budget = disruption.allow(pod, self._registry)
        self._registry.deletion.delete("/pods", pod, replace(options, dry_run=True))  # also checks the uid
        if not options.dry_run:
            disruption.record(budget, pod, self._registry)
            current = self._registry.get(call.resource, call.key)
            self._registry.deletion.delete("/pods", current, replace(options, resource_version=""))
        return answers.plain({**status.success(), "code": 201}, 201)

    def _bind(self, call: Call, name: str) -> Response:
        reader = Reader(call.request)
        binding = reader.of_kind(reader.plain(), _BINDING)
        metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
        if target.get("kind", "Node") not in ("", "Node") or not target.get("name"):
            cause = Cause("FieldValueRequired", "target.name")
            raise status.invalid("", "Binding", name, [cause])
        key = (call.namespace, name)
        pod = self._registry.get(call.resource, key)
        self._check_binding(pod, metadata, target["name"])
        node = self._registry.store.get("/nodes", ("", target["name"]))
        copied = {k: v for k, v in (node.labels if node else {}).items() if k in _TOPOLOGY}

        def bind(old: Json) -> Json:
            meta = dict(old["metadata"])
            meta["annotations"] = {**(meta.get("annotations") or {}), **(metadata.get("annotations") or {})}
            meta["labels"] = {**copied, **(meta.get("labels") or {}), **(metadata.get("labels") or {})}
            for empty in [field for field in ("annotations", "labels") if not meta[field]]:
                del meta[empty]
            condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
            condition["lastTransitionTime"] = self._registry.time()
            state = old.get("status") or {}
            remaining = [c for c in state.get("conditions") or () if c["type"] != "PodScheduled"]
            return {
                **old,
                "metadata": meta,
                "spec": {**old["spec"], "nodeName": target["name"]},
                "status": {**state, "conditions": [*remaining, condition]},
            }

        self._registry.update(self._binding_write(call), key, bind)
        return answers.plain({**status.success(), "code": 201}, 201)

    def _binding_write(self, call: Call) -> Write:
        """A binding writes spec and status together, which no other request may, and owns no fields."""
        write = self._verbs.write(call)
        writer = Writer(write.writer.manager, "Bind", "v1", "binding")
        return Write(replace(write.resource, subresources={}), writer, write.dry_run)

    def _check_binding(self, pod: Stored, metadata: Json, node: str) -> None:
        value = pod.value()
        bound = value["spec"].get("nodeName")
        why = ""
        if metadata.get("uid") and metadata["uid"] != pod.uid:
            why = f"Precondition failed: UID in precondition: {metadata['uid'][:100]}, UID in object meta: {pod.uid}"
        elif value["metadata"].get("deletionTimestamp"):
            why = f"pod {pod.name} is being deleted, cannot be assigned to a host"
        elif bound:
            why = f'pod {pod.name} is already assigned to node "{bound}"'
        elif value["spec"].get("schedulingGates"):
            why = f"pod {pod.name} has non-empty .spec.schedulingGates, cannot be assigned to {node}"
        if why:
            raise status.conflict("", "pods/binding", pod.name, why)

    def _token(self, call: Call) -> Response:
        reader = Reader(call.request)
        wanted = reader.of_kind(reader.plain(), _TOKEN)
        self._registry.get(call.resource, call.key)
        token = self._ids.token()
        account = f"system:serviceaccount:{call.namespace}:{call.name}"
        self._tokens[token] = User(account, ("system:serviceaccounts", "system:authenticated"))
        seconds = min((wanted.get("spec") or {}).get("expirationSeconds") or _TOKEN_S, 10 * _TOKEN_S)
        wanted["status"] = {"token": token, "expirationTimestamp": self._registry.time(seconds)}
        return answers.plain(wanted, 201)

    def _finalize(self, call: Call) -> Response:
        """Changes the finalizers in a Namespace's spec, which ends its deletion."""
        reader = Reader(call.request)
        value = reader.object(call.resource)
        finalizers = (value.get("spec") or {}).get("finalizers") or []

        def change(old: Json) -> Json:
            return {**old, "spec": {**(old.get("spec") or {}), "finalizers": finalizers}}

        return answers.one(call, self._registry.update(self._verbs.write(call), call.key, change))


def _replicas_path(resource: Resource) -> tuple[str, ...]:
    scale = resource.custom.scale if resource.custom else None
    return jsonpath.names(scale["specReplicasPath"]) if scale else ("spec", "replicas")


def _scale_of(resource: Resource, stored: Stored) -> Json:
    value = stored.value()
    metadata = value["metadata"]
    if resource.custom:
        paths = resource.custom.scale or {}
        found = jsonpath.find(paths["specReplicasPath"], value)
        current = jsonpath.find(paths["statusReplicasPath"], value)
        selector = jsonpath.find(paths["labelSelectorPath"], value) if paths.get("labelSelectorPath") else []
        text = str(selector[0]) if selector else ""
    else:
        found = [(value.get("spec") or {}).get("replicas", 0)]
        current = [(value.get("status") or {}).get("replicas", 0)]
        text = _selector_text((value.get("spec") or {}).get("selector"))
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Json = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
    scale["metadata"] = {name: metadata[name] for name in shown if name in metadata}
    scale["spec"] = {"replicas": found[0]} if found and found[0] is not None else {}
    scale["status"] = {"replicas": (current or [0])[0] or 0} | ({"selector": text} if text else {})
    return scale


def _selector_text(selector: Json | None) -> str:
    given = selector or {}
    labels = given.get("matchLabels") or (given if "matchExpressions" not in given else {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if isinstance(value, str))


def _with(value: Json, path: tuple[str, ...], replicas: int) -> Json:
    """The object with another number of replicas."""
    step, *below = path
    if not below:
        return {**value, step: replicas}
    return {**value, step: _with(value.get(step) or {}, tuple(below), replicas)}
