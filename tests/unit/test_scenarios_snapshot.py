"""The fields of a scenario that `holdfast snapshot` writes, the pseudonyms of `--scrub`, and the rights in docs/live.md."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
import pytest

from builders import nodepool, nodepool_document
from holdfast import names
from holdfast.api import aws as aws_names
from holdfast.api import documents
from holdfast.api.findings import text_of
from holdfast.api.scheduler_config import DefaultConstraint, PodTopologySpread, SchedulerConfig
from holdfast.app import optional_kinds, program, settings
from holdfast.app.settings import Settings
from holdfast.cli import aws, live_options, snapshot, whole_files
from holdfast.cli import scenarios as scenarios_command
from holdfast.cloud.aws.nodeclass.ownership import ALONE, BESIDE_KARPENTER
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.model.instances import InstanceState
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import CountBefore, Snapshot
from holdfast.scenarios import catalog_writing, scrub
from holdfast.scenarios.scenario import Scenario
from objects import nodeclaim, pod
from scenarios import built, instance_type, offering, reservation, wrong

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
WHEN = "2026-11-15T10:00:00Z"
WHEN_S = 1794736800
SLOT = {
    "providerID": "aws:///a/i-1",
    "reservationID": "cr-1",
    "instanceType": "m5.large",
    "zone": "us-west-2a",
    "state": "ending",
    "launched": WHEN,
}


def messages(*objects: Any, **spec: Any) -> list[str]:
    return [f"{text_of(one.finding.path)}: {one.finding.message}" for one in wrong(*objects, **spec)]


def complete(**fields: Any) -> Json:
    """An instance type of the class `default` alone, in a slot of cr-1 and on demand."""
    ways = [
        offering("us-west-2b", price="0.2", surcharge="0.05"),
        offering("us-west-2a", "reserved", price="0.1", reservation={"id": "cr-1"}),
    ]
    labels = {names.OS: "linux", names.ZONE: ["us-west-2a"], "gone": []}
    return instance_type(labels=labels, offerings=ways, nodeClasses=["default"], **fields)


# --- The Catalog ------------------------------------------------------------------------------------------


def test_type_of_a_class_has_exactly_the_labels_and_offerings_of_the_file() -> None:
    got = built(nodepool(), instanceTypes=[complete()], reservations=[reservation("cr-1")])
    ((known,),) = [pool.instance_types for pool in got.request.snapshot.node_pools]
    assert str(known.requirements) == (
        f"gone DoesNotExist, {names.OS} In [linux], {names.INSTANCE_TYPE} In [m5.large], {names.ZONE} In [us-west-2a]"
    )
    assert [(one.zone, one.reservation_id) for one in known.offerings] == [
        ("us-west-2b", None),
        ("us-west-2a", "cr-1"),
    ]
    assert known.offerings[0].surcharge_nano_usd_per_hour == 50_000_000
    assert got.notes == ()  # the class need not be in the file


def test_other_classes_do_not_get_the_type_of_a_class() -> None:
    other = instance_type("m5.xlarge")
    pools = (
        nodepool("a"),
        nodepool("b", nodeClassRef={"group": aws_names.GROUP, "kind": "EC2NodeClass", "name": "b"}),
    )
    got = built(*pools, instanceTypes=[complete(), other], reservations=[reservation("cr-1")])
    assert [[t.name for t in pool.instance_types] for pool in got.request.snapshot.node_pools] == [
        ["m5.large"],
        ["m5.xlarge"],
    ]


def test_type_that_a_class_has_twice_is_a_mistake() -> None:
    found = messages(instanceTypes=[complete(), complete()], reservations=[reservation("cr-1")])
    assert ".spec.instanceTypes[1]: m5.large of default is listed before" in found


def test_nodeclaim_in_flight_of_a_complete_class_is_a_node() -> None:
    got = built(nodepool(), nodeclaim("new"), instanceTypes=[complete()], reservations=[reservation("cr-1")])
    assert [(one.name, one.initialized) for one in got.request.snapshot.nodes] == [("new", False)]


def test_counts_instances_and_leads_of_reservations_are_read() -> None:
    before = {"read": WHEN, "free": 1, "elsewhere": 2, "here": 3}
    block = reservation(
        "cr-1", total=4, available=1, end="2026-12-01T00:00:00Z", tenancy="dedicated", drainLead="2h", reclaimLead="1h",
        countBefore=before,
    )  # fmt: skip
    got = built(reservations=[block], instances=[SLOT], countsRead=WHEN, now_s=WHEN_S + 60).request.snapshot
    (known,) = got.reservations
    assert (known.tenancy, known.drain_lead_s, known.reclaim_lead_s) == ("dedicated", 7200, 3600)
    assert got.count_before == {"cr-1": CountBefore(WHEN_S, 1, 2, 3)}
    assert got.counts_read_s == WHEN_S
    assert [(one.state, one.launched_s) for one in got.instances] == [(InstanceState.ENDING, WHEN_S)]
    assert ledger.ledger(got, 120)["cr-1"].releasing == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"reservations": [reservation("cr-1", drainLead="1h", reclaimLead="2h")]},
            ".spec.reservations[0].reclaimLead: it must not be longer than drainLead",
        ),
        (
            {"instanceTypes": [instance_type(offerings=[offering(surcharge="99999999999")])]},
            ".spec.instanceTypes[0].offerings[0].surcharge: price '99999999999' is more than 9223372036 USD an hour",
        ),
    ],
)
def test_mistakes_in_the_new_fields_are_reported(spec: Json, message: str) -> None:
    assert message in messages(**spec)


def test_two_pods_with_one_uid_are_a_mistake() -> None:
    assert (
        messages(pod("a", {"uid": "u"}), pod("b", {"uid": "u"}))
        == [".metadata.uid: another pod has the same uid"] * 2
    )


def test_pods_are_identified_by_uid_and_shown_by_name() -> None:
    got = built(pod("a", {"uid": "u-2"}), pod("b", {"uid": "u-1"}), pod("c"))
    assert [one.uid for one in got.request.snapshot.pending] == ["u-2", "u-1", "default/c"]
    assert got.pod_names == {"u-2": "default/a", "u-1": "default/b", "default/c": "default/c"}


# --- Pseudonyms -------------------------------------------------------------------------------------------


def scrubbed(**fields: Any) -> Json:
    (found,) = scrub.scrubbed([{"apiVersion": "v1", "metadata": {"name": "x"}} | fields], aws.TERMS)
    return found


def test_pseudonyms_sort_as_the_names_do() -> None:
    originals = ["b", "a", "a-b", "ab", "b1"]
    pods = [{"kind": "Pod", "metadata": {"name": one, "namespace": one}} for one in originals]
    found = scrub.scrubbed(pods, aws.TERMS)
    for key in (
        lambda one: one["metadata"]["name"],
        lambda one: f"{one['metadata']['namespace']}/{one['metadata']['name']}",
    ):
        before = sorted(range(len(pods)), key=lambda n: key(pods[n]))
        assert sorted(range(len(pods)), key=lambda n: key(found[n])) == before


def test_names_that_others_define_are_kept_and_own_ones_are_not() -> None:
    labels = {
        names.ARCH: "arm64",
        names.NODEPOOL: "blue",
        "app.kubernetes.io/name": "shop",
        "acme.example/tier": "gold",
        "generation": "7",
    }
    got = scrubbed(kind="Node", metadata={"name": "n", "labels": labels})["metadata"]["labels"]
    assert got == {
        names.ARCH: "arm64",
        names.NODEPOOL: "pool-01",
        "app.kubernetes.io/name": "value-02",
        "key-01": "value-01",
        "key-02": "7",
    }


def test_expressions_taints_and_resources_have_the_pseudonyms_of_labels() -> None:
    expression = {"key": "acme.example/tier", "operator": "In", "values": ["gold"]}
    spec = {
        "nodeSelector": {"acme.example/tier": "gold"},
        "affinity": {
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        },
        "tolerations": [
            {"key": "acme.example/tier", "operator": "Equal", "value": "gold"},
            {"operator": "Exists"},
        ],
        "containers": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 1, "acme.example/seat": "2"}},
            }
        ],
    }
    got = scrubbed(
        kind="Pod",
        metadata={"name": "p", "namespace": "n", "labels": {"acme.example/tier": "gold"}},
        spec=spec,
    )
    (key,) = got["metadata"]["labels"]
    value = got["metadata"]["labels"][key]
    (term,) = got["spec"]["affinity"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert got["spec"]["nodeSelector"] == {key: value}
    assert term["matchExpressions"] == [{"key": key, "operator": "In", "values": [value]}]
    assert got["spec"]["tolerations"][0] == {"key": key, "operator": "Equal", "value": value}
    assert got["spec"]["tolerations"][1] == {"operator": "Exists"}
    (container,) = got["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": 1, "resource-01": "2"}


def test_text_in_an_unknown_field_is_removed() -> None:
    got = scrubbed(
        kind="Pod",
        metadata={"name": "p", "note": "acme"},
        spec={"secretName": "acme", "deep": [{"it": "acme"}]},
    )
    assert "acme" not in json.dumps(got)


# --- The commands -----------------------------------------------------------------------------------------


CATALOG: Json = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "Catalog",
    "metadata": {"name": "c"},
    "spec": {},
}


def a_pod(name: str, namespace: str, cpu: str = "1", **spec: Any) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers} | spec}


def test_object_that_a_plan_refuses_is_left_out_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    pool = nodepool_document("bad")
    pool["spec"]["limits"] = {"cpu": "lots"}
    good, bad = a_pod("p", "one"), a_pod("p", "two", cpu="lots")
    assert snapshot._readable([CATALOG, pool, good, bad]) == [CATALOG, good]
    notes = capsys.readouterr().err
    assert "note: NodePool/bad is left out: " in notes
    assert "note: Pod/p is left out: " in notes


def test_node_that_a_plan_refuses_is_left_out_with_its_pods() -> None:
    status = {"capacity": {"cpu": "lots"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": status}
    other = a_pod("q", "one")
    assert snapshot._readable([CATALOG, node, a_pod("p", "one", nodeName="n"), other]) == [CATALOG, other]


def test_reservation_that_a_catalog_cannot_have_is_left_out() -> None:
    start_s, end_s = WHEN_S, WHEN_S + 3600
    fine = Reservation("cr-1", "default", "m5.large", "a", "", 1, 1, state_name="new-word")
    others = (
        dataclasses.replace(fine, id="cr-2", kind="new-kind"),
        dataclasses.replace(fine, id="cr-3", start_s=end_s, end_s=start_s),
        dataclasses.replace(fine, id="cr-4", kind="capacity-block", drain_lead_s=60),
    )
    taken = Snapshot(taken_s=WHEN_S, cloud_labels=aws.TERMS.labels, reservations=(fine, *others))
    document = catalog_writing.catalog(taken, {}, PlanSettings(), SchedulerConfig(), aws.TERMS)
    found = scenarios_command.of_documents([document])
    assert isinstance(found, Scenario)
    assert [(one.id, one.state_name) for one in found.request.snapshot.reservations] == [("cr-1", "active")]


def test_options_of_a_live_plan_are_settings_of_the_program() -> None:
    assert live_options.OPTIONS.keys() <= {one.name for one in settings.TABLE}


def test_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(FileExistsError):
        whole_files.write(target, "new", replace=False, is_private=True)
    assert target.read_text() == "old"
    whole_files.write(target, "new", replace=True, is_private=True)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "new")]


def test_rights_in_the_docs_are_the_kinds_that_are_listed() -> None:
    text = (ROOT / "docs/live.md").read_text()
    (found,) = documents.read(text.partition("```yaml\n")[2].partition("```")[0].encode())
    assert isinstance(found, documents.Document)
    rules = found.value["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
    granted = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    constraint = DefaultConstraint(max_skew=1, topology_key=names.ZONE, when_unsatisfiable="ScheduleAnyway")
    spreads = SchedulerConfig(pod_topology_spread=PodTopologySpread(default_constraints=(constraint,)))
    listed = set()
    for ownership in (ALONE, BESIDE_KARPENTER):
        one = Settings(
            cluster_name="c",
            scheduler=spreads,
            ownership=ownership,
            optional_kinds=(*optional_kinds.KINDS, *optional_kinds.WITH.values()),
        )
        for kind in program.watched_kinds(one):
            group = kind.api_version.rpartition("/")[0]
            listed.add((group, kind.plural))
    assert granted == listed


def test_snapshot_without_a_cluster_name_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    with pytest.raises(SystemExit) as exited:
        snapshot.command.main(["-o", "-"], standalone_mode=False)
    assert exited.value.code == 2
    assert "--cluster-name: required" in capsys.readouterr().err
    assert isinstance(snapshot.command, click.Command)
