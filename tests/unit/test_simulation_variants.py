"""The changes of a variant."""

from typing import Any

from holdfast.simulate import variants


def world(*reservations: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "World",
        "metadata": {"name": "a"},
        "spec": {"region": "us-west-2", "reservations": list(reservations)},
    }


def slots(id_: str, total: int, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "total": total, **fields}


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_reservation_with_the_same_id_is_changed_and_another_is_added() -> None:
    base = [world(slots("cr-1", 4, zone="a"), slots("cr-2", 1))]
    found = variants.applied(base, [world(slots("cr-1", 6), slots("cr-3", 2))])
    assert found[0]["spec"]["reservations"] == [
        slots("cr-1", 6, zone="a"), slots("cr-2", 1), slots("cr-3", 2),
    ]  # fmt: skip
    assert found[0]["spec"]["region"] == "us-west-2"
    assert base == [world(slots("cr-1", 4, zone="a"), slots("cr-2", 1))]


def test_reservation_is_removed() -> None:
    base = [world(slots("cr-1", 4), slots("cr-2", 1))]
    found = variants.applied(base, [world({"id": "cr-1", "$patch": "delete"})])
    assert found[0]["spec"]["reservations"] == [slots("cr-2", 1)]


def test_world_is_changed_whatever_its_name_is() -> None:
    change = {"kind": "World", "metadata": {"name": "other"}, "spec": {"region": "eu-west-1"}}
    (found,) = variants.applied([world()], [change])
    assert found["spec"]["region"] == "eu-west-1"


def test_null_removes_a_field() -> None:
    (found,) = variants.applied([deployment("a", replicas=2, paused=True)], [deployment("a", paused=None)])
    assert found["spec"] == {"replicas": 2}


def test_object_of_another_name_is_added_and_one_is_deleted() -> None:
    found = variants.applied(
        [deployment("a"), deployment("b")], [deployment("c"), {**deployment("a"), "$patch": "delete"}]
    )
    assert [one["metadata"]["name"] for one in found] == ["b", "c"]


def test_deletion_of_a_missing_object_is_reported() -> None:
    gone = {**deployment("z"), "$patch": "delete"}
    assert variants.missing([deployment("a")], [gone]) == [gone]


def test_list_of_plain_values_is_replaced() -> None:
    (found,) = variants.applied([deployment("a", args=["x", "y"])], [deployment("a", args=["z"])])
    assert found["spec"]["args"] == ["z"]


def test_lines_tell_each_change_with_both_values() -> None:
    base = [world(slots("cr-1", 4), slots("cr-2", 1)), deployment("a", replicas=2)]
    changed = variants.applied(
        base, [world(slots("cr-1", 6), {"id": "cr-2", "$patch": "delete"}), deployment("b", replicas=1)]
    )
    assert variants.lines(base, changed) == (
        "World spec reservations cr-1 total: 4 -> 6",
        "World spec reservations cr-2: removed",
        "Deployment b: added",
    )
