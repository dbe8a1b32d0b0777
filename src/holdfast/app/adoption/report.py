"""What Holdfast would do to each NodePool, EC2NodeClass, NodeClaim and instance, from a dry run. Pure.

A node that Holdfast would replace or terminate although Karpenter has not announced it is an error. Everything else that
would happen is a warning or information, and a node without any of it is kept.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast import names
from holdfast.api import claim_conditions, conditions, validation
from holdfast.api.findings import text_of
from holdfast.app.adoption import differences
from holdfast.app.adoption.recorded_writes import AwsWrite
from holdfast.model import check_results
from holdfast.model.check_results import CheckResult
from holdfast.state.conversion import nodepools

Json = Mapping[str, Any]

NODEPOOL: Final = "nodepool"
NODECLASS: Final = "ec2nodeclass"
NODECLAIM: Final = "nodeclaim"
INSTANCE: Final = "instance"
FIELDS: Final = "fields"
CALLS: Final = "aws"


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one kind before and after the dry run, by name."""

    before: Mapping[str, Json]
    after: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The result of a dry run."""

    pools: Objects
    classes: Objects
    claims: Objects
    nodes: Objects
    events: Sequence[Json]
    writes: Sequence[AwsWrite]
    lost_instances: Sequence[str]  # ids of instances that have the tags of the cluster and no NodeClaim


def results(observed: Observed) -> tuple[CheckResult, ...]:
    return (
        *_pools(observed),
        *_classes(observed.classes),
        *_claims(observed),
        *_new_claims(observed.claims),
        *_instances(observed.lost_instances),
        *_fields(observed),
        *_calls(observed.writes),
    )


# --- NodePools and EC2NodeClasses -------------------------------------------------------------------


def _pools(observed: Observed) -> Iterator[CheckResult]:
    for name, before in sorted(observed.pools.before.items()):
        about = f"NodePool/{name}"
        found = list(_refused(NODEPOOL, about, before))
        if before["spec"].get("replicas") is not None:
            fix = "keep Karpenter while you need it, or create a NodePool without spec.replicas"
            found.append(
                check_results.warning(
                    NODEPOOL, about, "is static (spec.replicas): Holdfast does not act on it", fix
                )
            )
        else:
            found += _readiness(NODEPOOL, about, before, observed.pools.after.get(name))
        yield from found or [check_results.ok(NODEPOOL, about, "is used as it is")]


def _classes(classes: Objects) -> Iterator[CheckResult]:
    for name, before in sorted(classes.before.items()):
        about = f"EC2NodeClass/{name}"
        found = list(_refused(NODECLASS, about, before))
        found += _readiness(NODECLASS, about, before, classes.after.get(name))
        yield from found or [check_results.ok(NODECLASS, about, "is used as it is")]


def _refused(check: str, about: str, obj: Json) -> Iterator[CheckResult]:
    """What Holdfast's CRDs do not accept: the object stays, and a change of it is refused until it is mended."""
    validator = validation.validators()[obj["apiVersion"], obj["kind"]]
    for finding in validator.findings(dict(obj)):
        if finding.path[:1] == ("status",):  # Holdfast writes it again
            continue
        fix = "correct the object before the CRDs of Holdfast are applied"
        yield check_results.warning(check, about, f"{text_of(finding.path)}: {finding.message}", fix)


def _readiness(check: str, about: str, before: Json, after: Json | None) -> Iterator[CheckResult]:
    ready = _condition(after or {}, conditions.READY)
    if after is None or ready is None or ready["status"] == conditions.TRUE:
        return
    types = _condition(after, nodepools.INSTANCE_TYPES)
    if types is not None:
        yield check_results.warning(
            check, about, f"can launch nothing: {types['message']}", "see its conditions"
        )
        return
    why = f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": ")
    if _is_true(before, conditions.READY):
        fix = "find the cause with holdfast doctor"
        yield check_results.error(check, about, f"is Ready for Karpenter and not for Holdfast: {why}", fix)
    else:
        yield check_results.warning(check, about, f"is not Ready: {why}", "see its conditions")


# --- NodeClaims -------------------------------------------------------------------------------------


def _claims(observed: Observed) -> Iterator[CheckResult]:
    for name, before in sorted(observed.claims.before.items()):
        yield _claim(observed, name, before, observed.claims.after.get(name))


def _claim(observed: Observed, name: str, before: Json, after: Json | None) -> CheckResult:
    about, pool = f"NodeClaim/{name}", before["metadata"].get("labels", {}).get(names.NODEPOOL, "")
    if _is_deleting(before):
        return check_results.info(NODECLAIM, about, "is terminating; Holdfast continues the termination")
    keep = f'set the budget nodes: "0" in NodePool/{pool} before Holdfast starts, to keep the node'
    if after is None or _is_deleting(after):
        why = _reasons(observed.events, "NodeClaim", name) or "see the NodeClaim"
        return check_results.error(NODECLAIM, about, f"would be deleted: {why}", keep)
    drift = _drift(about, before, after, pool, keep)
    if drift is not None:
        return drift
    if names.DISRUPTION_COMMAND in after["metadata"].get("annotations", {}):
        why = _reasons(observed.events, "NodeClaim", name) or "consolidation"
        return check_results.warning(NODECLAIM, about, f"would be disrupted: {why}", keep)
    for condition, found in (
        (claim_conditions.LAUNCHED, "is not launched yet; Holdfast launches its instance"),
        (claim_conditions.REGISTERED, "is launched and its Node is not registered; Holdfast waits for it"),
        (claim_conditions.INITIALIZED, "is registered and not initialized; Holdfast initializes it"),
    ):
        if not _is_true(before, condition):
            return check_results.info(NODECLAIM, about, found)
    return check_results.ok(NODECLAIM, about, f"is kept, with instance {_instance(before)}")


def _drift(about: str, before: Json, after: Json, pool: str, keep: str) -> CheckResult | None:
    old, new = (_condition(one, claim_conditions.DRIFTED) for one in (before, after))
    if new is not None and old is None:
        return check_results.error(
            NODECLAIM, about, f"would be replaced: it is drifted ({new.get('reason')})", keep
        )
    if new is not None and old is not None:
        found = f"is drifted ({old.get('reason')}); Holdfast replaces it when the budgets of NodePool/{pool} allow it"
        return check_results.info(NODECLAIM, about, found)
    if old is not None:
        return check_results.info(
            NODECLAIM,
            about,
            f"is drifted for Karpenter ({old.get('reason')}) and not for Holdfast: it is kept",
        )
    return None


def _new_claims(claims: Objects) -> Iterator[CheckResult]:
    counts = Counter(
        claim["metadata"].get("labels", {}).get(names.NODEPOOL, "")
        for name, claim in claims.after.items()
        if name not in claims.before
    )
    for pool, count in sorted(counts.items()):
        yield check_results.info(
            NODEPOOL, f"NodePool/{pool}", f"would get {count} new {'node' if count == 1 else 'nodes'}"
        )


def _instances(instance_ids: Sequence[str]) -> Iterator[CheckResult]:
    for instance_id in sorted(instance_ids):
        fix = "if you need it, remove its tag karpenter.sh/nodepool before Holdfast starts"
        found = "would be terminated: it has the tags of this cluster and no NodeClaim"
        yield check_results.error(INSTANCE, instance_id, found, fix)


# --- What would be written --------------------------------------------------------------------------


def _fields(observed: Observed) -> Iterator[CheckResult]:
    """One line for each field that differs, with the number of objects."""
    kinds = (
        ("NodePool", observed.pools),
        ("EC2NodeClass", observed.classes),
        ("NodeClaim", observed.claims),
        ("Node", observed.nodes),
    )
    for kind, objects in kinds:
        counts = Counter(
            (one.path, one.what)
            for name, before in objects.before.items()
            if name in objects.after
            for one in differences.of(before, objects.after[name])
        )
        for (path, what), count in sorted(counts.items()):
            yield check_results.info(
                FIELDS, kind, f"{path} would be {what} ({count} of {len(objects.before)})"
            )


def _calls(writes: Sequence[AwsWrite]) -> Iterator[CheckResult]:
    """One line for each operation. A call that was retried counts once."""
    distinct = {(one.service, one.operation, repr(sorted(one.parameters.items()))) for one in writes}
    counts = Counter((service, operation) for service, operation, _ in distinct)
    for (service, operation), count in sorted(counts.items()):
        times = "once" if count == 1 else f"{count} times"
        yield check_results.info(CALLS, f"{service}:{operation}", f"would be called {times}")


# --- Reading objects --------------------------------------------------------------------------------


def _condition(obj: Json, kind: str) -> Json | None:
    return next((one for one in obj.get("status", {}).get("conditions") or () if one["type"] == kind), None)


def _is_true(obj: Json, kind: str) -> bool:
    found = _condition(obj, kind)
    return found is not None and found["status"] == conditions.TRUE


def _is_deleting(obj: Json) -> bool:
    return obj["metadata"].get("deletionTimestamp") is not None


def _instance(claim: Json) -> str:
    return str(claim.get("status", {}).get("providerID", "")).rpartition("/")[2]


def _reasons(events: Sequence[Json], kind: str, name: str) -> str:
    found = [
        event.get("message", "")
        for event in events
        if event["involvedObject"].get("kind") == kind and event["involvedObject"].get("name") == name
    ]
    return "; ".join(dict.fromkeys(found))
