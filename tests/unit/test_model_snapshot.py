"""Inputs of decisions are values: hashable shapes, host ports, selectors and a snapshot."""

import pytest

from holdfast import names
from holdfast.model import requirements, snapshot
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape, PodTerm, PodView, TopologySpread
from holdfast.model.requirement import Expression, Operator
from holdfast.model.resources import of
from holdfast.model.selectors import LabelSelector


@pytest.mark.fact("S-87")
@pytest.mark.parametrize(
    ("a", "b", "conflict"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), False),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1"), True),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="0.0.0.0"), True),  # noqa: S104
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="::"), True),
        (HostPort(80, ip="10.0.0.1"), HostPort(80), True),
    ],
)
def test_host_ports_conflict_by_port_protocol_and_address(
    a: HostPort, b: HostPort, *, conflict: bool
) -> None:
    assert a.conflicts(b) is b.conflicts(a) is conflict


@pytest.mark.parametrize(
    ("operator", "values", "with_a", "with_b", "without"),
    [
        (Operator.IN, ("a",), True, False, False),
        (Operator.NOT_IN, ("a",), False, True, True),
        (Operator.EXISTS, (), True, True, False),
        (Operator.DOES_NOT_EXIST, (), False, False, True),
    ],
)
def test_a_selector_matches_labels_as_kubernetes_does(
    operator: Operator, values: tuple[str, ...], *, with_a: bool, with_b: bool, without: bool
) -> None:
    selector = LabelSelector((Expression("app", operator, values),))
    got = [selector.matches(labels) for labels in ({"app": "a"}, {"app": "b"}, {"x": "y"})]
    assert got == [with_a, with_b, without]


def test_an_empty_selector_matches_everything_and_all_expressions_must_match() -> None:
    assert LabelSelector().matches({})
    both = LabelSelector((Expression("a", Operator.EXISTS), Expression("b", Operator.EXISTS)))
    assert not both.matches({"a": "1"})


def test_a_selector_refuses_the_operator_gt() -> None:
    with pytest.raises(AssertionError, match="no operator Gt"):
        LabelSelector((Expression("a", Operator.GT, ("1",)),)).matches({})


def shape() -> PodShape:
    selector = LabelSelector((Expression("app", Operator.IN, ("web",)),))
    return PodShape(
        "default",
        of({"cpu": 100, "pods": 1}),
        labels=(("app", "web"),),
        node_selector=requirements.from_labels({names.ARCH: "arm64"}),
        spreads=(TopologySpread(names.ZONE, 1, required=True, selector=selector),),
        anti_affinity=(PodTerm(names.HOSTNAME, selector, ("default",)),),
        host_ports=(HostPort(80),),
    )


def test_pods_with_equal_fields_have_equal_shapes() -> None:
    assert len({shape(), shape()}) == 1
    assert PodView("u-1", "web-1", 7, shape()).full_name == "default/web-1"


def test_a_snapshot_is_a_value() -> None:
    labels = snapshot.CloudLabels(names.WELL_KNOWN_LABELS)
    pod = PodView("u-1", "web-1", 7, shape())
    assert snapshot.Snapshot(0, labels, pending=(pod,)) == snapshot.Snapshot(0, labels, pending=(pod,))
    assert hash(snapshot.Snapshot(0, labels, pending=(pod,)))
