"""The annotation that explains a NodeClaim: what it says, and that its size is bounded."""

import json

import objects
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.explain import claims
from holdfast.model.reasons import RESERVATION, Reason, ReasonCode
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.resources import NOTHING
from holdfast.state.conversion import claim_explanations

PLANNED = PlannedClaim(
    node_pool="general",
    requirements=NO_REQUIREMENTS,
    instance_types=("m5.large",),
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="on-demand",
    price_nano_usd_per_hour=96_000_000,
    requests=NOTHING,
    pods=("uid-1", "uid-2"),
    not_reserved=(Reason(ReasonCode.FULL, "has no free slot", ("cr-1", "cr-2"), RESERVATION),),
)
NOW_S = 1_794_931_200


def pods(count: int) -> list[Pod]:
    return [objects.pod(f"web-{i:03}", meta={"namespace": "shop"}) for i in range(count)]


def claim(annotations: dict[str, str]) -> NodeClaim:
    return objects.nodeclaim("x", {"annotations": annotations})


def test_the_annotation_names_pods_offering_reservations_and_what_would_change() -> None:
    written = claim_explanations.annotation(PLANNED, pods(2), cause="Pods were pending.", now_s=NOW_S)
    assert json.loads(written[names.EXPLANATION]) == {
        "at": NOW_S,
        "cause": "Pods were pending.",
        "pods": ["shop/web-000", "shop/web-001"],
        "podCount": 2,
        "instanceType": "m5.large",
        "zone": "us-west-2a",
        "capacityType": "on-demand",
        "usdPerHour": "0.096",
        "notReserved": [
            {"code": "Full", "text": "has no free slot", "kind": "reservation", "ids": ["cr-1", "cr-2"]}
        ],
        "changes": [
            "A slot of reservations cr-1, cr-2 that becomes free.",
            "Consolidation then moves its pods, as the disruption settings of its NodePool allow.",
        ],
    }
    read = claim_explanations.of(claim(written))
    assert read is not None
    assert claim_explanations.sentences(read) == ["reservations cr-1, cr-2: each has no free slot"]


def test_a_claim_in_a_slot_names_its_reservation() -> None:
    reserved = PLANNED._replace(
        reservation_id="cr-1", capacity_type="reserved", price_nano_usd_per_hour=0, not_reserved=()
    )
    read = claim_explanations.of(
        claim(claim_explanations.annotation(reserved, pods(1), cause="x", now_s=NOW_S))
    )
    assert read is not None
    assert (read.reservation, read.usd_per_hour, read.not_reserved) == ("cr-1", "0", ())


def test_pods_of_a_request_are_counted_and_have_no_names() -> None:
    written = claim_explanations.annotation(
        PLANNED, pods(0), cause="The request had no capacity.", now_s=NOW_S
    )
    assert claims.why(claim(written)) == (
        "The request had no capacity.",
        "The NodeClaim was created for 2 pods.",
    )


def test_the_size_is_bounded() -> None:
    """With thousands of pods, reservations and causes, and texts of any length."""
    ids = tuple(f"cr-{i:017}" for i in range(500))
    causes = tuple(Reason(ReasonCode.FULL, f"{i} {'x' * 5000}", ids, RESERVATION) for i in range(100))
    huge = PLANNED._replace(pods=tuple(map(str, range(5000))), not_reserved=causes)
    text = claim_explanations.annotation(huge, pods(5000), cause="y" * 5000, now_s=NOW_S)[names.EXPLANATION]
    read = claim_explanations.of(claim({names.EXPLANATION: text}))
    assert len(text) < 10_000
    assert read is not None
    assert (len(read.pods), read.pod_count) == (10, 5000)
    assert (len(read.not_reserved), read.more_causes) == (12, 88)
    assert (len(read.not_reserved[0].ids), read.not_reserved[0].more) == (6, 494)


def test_an_annotation_that_cannot_be_decoded_counts_as_absent() -> None:
    for text in ("", "{", "[]", '{"at": "now"}', "null"):
        assert claim_explanations.of(claim({names.EXPLANATION: text})) is None
    assert claim_explanations.of(claim({})) is None
