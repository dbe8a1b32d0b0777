"""What `holdfast adopt --check` reports of objects before and after a dry run."""

from typing import Any

import pytest

import builders
from holdfast.app.adoption import differences, report
from holdfast.app.adoption.recorded_writes import AwsWrite
from holdfast.app.adoption.report import Objects, Observed
from holdfast.model.check_results import CheckResult

Json = dict[str, Any]

DRIFTED = {"type": "Drifted", "status": "True", "reason": "AMIDrift"}
STAGES = tuple(
    {"type": one, "status": "True", "reason": one} for one in ("Launched", "Registered", "Initialized")
)
NOTHING = Objects({}, {})


def claim(*conditions: Json, **metadata: Any) -> Json:
    labels = {"karpenter.sh/nodepool": "default"}
    status = {"providerID": "aws:///us-west-2a/i-1", "conditions": [*STAGES, *conditions]}
    return {"metadata": {"name": "c-1", "labels": labels, **metadata}, "status": status}


def reported(**observed: Any) -> list[CheckResult]:
    empty: Json = {"pools": NOTHING, "classes": NOTHING, "claims": NOTHING, "nodes": NOTHING}
    rest: Json = {"events": (), "writes": (), "lost_instances": ()}
    return list(report.results(Observed(**(empty | rest | observed))))


def of_claim(before: Json, after: Json | None, events: tuple[Json, ...] = ()) -> CheckResult:
    objects = Objects({"c-1": before}, {"c-1": after} if after is not None else {})
    (found,) = [one for one in reported(claims=objects, events=events) if one.object == "NodeClaim/c-1"]
    return found


@pytest.mark.parametrize(
    ("before", "after", "level", "found"),
    [
        (claim(), claim(), "ok", "is kept, with instance i-1"),
        (claim(deletionTimestamp="t"), claim(deletionTimestamp="t"), "info", "is terminating"),
        (claim(), claim(DRIFTED), "error", "would be replaced: it is drifted (AMIDrift)"),
        (claim(DRIFTED), claim(DRIFTED), "info", "is drifted (AMIDrift); Holdfast replaces it when"),
        (claim(DRIFTED), claim(), "info", "is drifted for Karpenter (AMIDrift) and not for Holdfast"),
        (claim(), claim(deletionTimestamp="t"), "error", "would be deleted: see the NodeClaim"),
        (claim(), None, "error", "would be deleted: see the NodeClaim"),
        (
            claim(),
            claim(annotations={"holdfast.dev/disruption-command": "{}"}),
            "warning",
            "would be disrupted: consolidation",
        ),
    ],
)  # fmt: skip
def test_nodeclaim_is_reported(before: Json, after: Json | None, level: str, found: str) -> None:
    result = of_claim(before, after)
    assert (result.level, result.found[: len(found)]) == (level, found)


@pytest.mark.parametrize(
    ("stages", "found"),
    [
        ((), "is not launched yet"),
        (STAGES[:1], "is launched and its Node"),
        (STAGES[:2], "is registered and not"),
    ],
)
def test_nodeclaim_that_is_not_initialized_is_continued(stages: tuple[Json, ...], found: str) -> None:
    before = claim()
    before["status"]["conditions"] = list(stages)
    result = of_claim(before, before)
    assert (result.level, result.found.startswith(found)) == ("info", True)


def test_events_of_the_dry_run_are_the_reason_of_a_deletion() -> None:
    about = {"kind": "NodeClaim", "name": "c-1"}
    events = (
        {"involvedObject": about, "message": "Expired"},
        {"involvedObject": about, "message": "Expired"},
        {"involvedObject": about | {"name": "c-2"}, "message": "of another one"},
    )
    assert of_claim(claim(), None, events).found == "would be deleted: Expired"


def test_fields_that_the_crds_do_not_have_and_static_nodepools_are_warnings() -> None:
    pool = builders.nodepool_document()
    pool["spec"] |= {"replicas": 2, "weigth": 1}
    found = {one.found: one.level for one in reported(pools=Objects({"default": pool}, {"default": pool}))}
    assert found == {
        ".spec.weigth: unknown field; did you mean weight?": "warning",
        "is static (spec.replicas): Holdfast does not act on it": "warning",
    }


@pytest.mark.parametrize(("was_ready", "level"), [(True, "error"), (False, "warning")])
def test_nodepool_that_would_not_be_ready_is_reported(level: str, *, was_ready: bool) -> None:
    def with_ready(status: str) -> Json:
        ready = {"type": "Ready", "status": status, "reason": "NotReady", "message": "no class"}
        return builders.nodepool_document() | {"status": {"conditions": [ready]}}

    before = with_ready("True" if was_ready else "False")
    (result, *_) = reported(pools=Objects({"default": before}, {"default": with_ready("False")}))
    assert (result.level, result.found.endswith("NotReady: no class")) == (level, True)


def test_new_nodes_lost_instances_fields_and_calls_are_counted() -> None:
    after = claim(annotations={"a.b/c": "1"})
    new = claim() | {"metadata": {"name": "c-2", "labels": {"karpenter.sh/nodepool": "default"}}}
    tags = AwsWrite("ec2", "CreateTags", {"Resources": ["i-1"]})
    found = {
        (one.object, one.found): one.level
        for one in reported(
            claims=Objects({"c-1": claim()}, {"c-1": after, "c-2": new}),
            lost_instances=("i-9",),
            writes=(tags, tags, AwsWrite("ec2", "CreateTags", {"Resources": ["i-2"]})),
        )
    }
    assert found["NodePool/default", "would get 1 new node"] == "info"
    assert found["i-9", "would be terminated: it has the tags of this cluster and no NodeClaim"] == "error"
    assert found["NodeClaim", ".metadata.annotations[a.b/c] would be added (1 of 1)"] == "info"
    assert found["ec2:CreateTags", "would be called 2 times"] == "info"


def test_differences_name_items_of_lists_and_leave_out_what_every_write_changes() -> None:
    before = {"metadata": {"resourceVersion": "1"}, "taints": [{"key": "a", "effect": "x"}], "gone": 1}
    after = {
        "metadata": {"resourceVersion": "2"},
        "taints": [{"key": "a", "effect": "y"}],
        "finalizers": ["f"],
    }
    assert [(one.path, one.what) for one in differences.of(before, after)] == [
        (".finalizers[f]", "added"),
        (".gone", "removed"),
        (".taints[a].effect", "changed"),
    ]
