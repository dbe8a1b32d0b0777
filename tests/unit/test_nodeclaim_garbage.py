"""Which instances have no NodeClaim, and which NodeClaims have no instance."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers.nodeclaim.garbage import without_claim, without_instance
from holdfast.model.instances import Instance, InstanceState

NOW_S = 1000
TOKEN = "t-1"
INSTANCE = Instance(
    "i-1", "m5.large", "z1", "on-demand", InstanceState.RUNNING, 0, launch_token=TOKEN, claim="c-1"
)


def nodeclaim(name: str = "c-1", launched_with: str = "", pool: str = "", **status: Any) -> NodeClaim:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if status.pop("deleting", False) else {}
    annotations = {names.LAUNCH_TOKEN: launched_with} if launched_with else {}
    labels = {names.NODEPOOL: pool} if pool else {}
    metadata = {"name": name, "annotations": annotations, "labels": labels, **deleted}
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    }
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, NodeClaim)


def registered(status: str = "True", **more: Any) -> NodeClaim:
    condition = {"type": "Registered", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return nodeclaim(providerID="i-1", conditions=[condition], **more)


@pytest.mark.fact("NC-20")
@pytest.mark.parametrize(
    "claim",
    [
        nodeclaim("other"),
        nodeclaim("other", launched_with="t-2"),
        nodeclaim("other", launched_with=TOKEN, providerID="i-2"),
        nodeclaim("c-1", providerID="i-2"),
    ],
    ids=["unlaunched", "another token", "launched with its token", "launched with its name"],
)
def test_an_instance_that_no_nodeclaim_has_or_may_adopt_is_without_claim(claim: NodeClaim) -> None:
    assert without_claim([INSTANCE], [claim], NOW_S) == [INSTANCE]


@pytest.mark.parametrize(
    "claim",
    [nodeclaim("other", providerID="i-1"), nodeclaim("other", launched_with=TOKEN), nodeclaim("c-1")],
    ids=["its provider id", "its token", "its name"],
)
def test_an_instance_that_a_nodeclaim_has_or_may_adopt_is_not_without_claim(claim: NodeClaim) -> None:
    assert without_claim([INSTANCE], [claim], NOW_S) == []


def test_an_instance_without_token_is_not_adopted_by_a_nodeclaim_without_token() -> None:
    untagged = replace(INSTANCE, launch_token=None)
    assert without_claim([untagged], [nodeclaim("other")], NOW_S) == [untagged]


@pytest.mark.parametrize(
    ("pool", "age_s", "kept"), [("default", 900, True), ("default", 901, False), ("other", 100, False)]
)
def test_an_instance_of_karpenter_is_kept_for_a_nodeclaim_of_its_nodepool(
    pool: str, age_s: int, *, kept: bool
) -> None:
    instance = replace(
        INSTANCE,
        launch_token=None,
        claim=None,
        launched_s=NOW_S - age_s,
        labels=((names.NODEPOOL, "default"),),
    )
    unlaunched = nodeclaim("other", pool=pool)
    assert (without_claim([instance], [unlaunched], NOW_S) == []) is kept
    launched = nodeclaim("other", pool=pool, providerID="i-2")
    assert without_claim([instance], [launched], NOW_S) == [instance]


def test_an_instance_of_thirty_seconds_is_too_young() -> None:
    young, old = (replace(INSTANCE, launched_s=NOW_S - age_s) for age_s in (30, 31))
    assert without_claim([young, old], [], NOW_S) == [old]


@pytest.mark.parametrize("state", list(InstanceState))
def test_only_an_instance_that_starts_or_runs_is_terminated(state: InstanceState) -> None:
    found = without_claim([replace(INSTANCE, state=state)], [], NOW_S)
    assert bool(found) == (state in (InstanceState.STARTING, InstanceState.RUNNING))


@pytest.mark.fact("NC-20")
def test_a_registered_nodeclaim_whose_instance_is_not_listed_is_without_instance() -> None:
    claim = registered()
    assert without_instance([claim], []) == [claim]
    assert without_instance([claim], [replace(INSTANCE, provider_id="i-2")]) == [claim]
    assert without_instance([claim], [replace(INSTANCE, state=InstanceState.GONE)]) == [claim]


def test_a_listed_instance_has_its_nodeclaim_until_it_is_terminated() -> None:
    for state in (InstanceState.STARTING, InstanceState.RUNNING, InstanceState.ENDING):
        assert without_instance([registered()], [replace(INSTANCE, state=state)]) == []


@pytest.mark.parametrize(
    "claim",
    [registered(deleting=True), registered("False"), registered("Unknown"), nodeclaim()],
    ids=["deleting", "not registered", "not known", "not launched"],
)
def test_other_nodeclaims_are_not_without_instance(claim: NodeClaim) -> None:
    assert without_instance([claim], []) == []
