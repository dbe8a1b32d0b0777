"""Every NodeClaim says why it exists and why it is reserved, on demand or on spot. The real controllers run in virtual
time."""

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api.claim_explanation import ClaimExplanation
from holdfast.api.nodeclaim import NodeClaim
from holdfast.state.conversion import claim_explanations

ONE_PER_NODE = {"cpu": "1500m"}  # of an m5.large


def explained(claim: NodeClaim) -> ClaimExplanation:
    found = claim_explanations.of(claim)
    assert found is not None
    return found


def test_a_nodeclaim_says_which_reservations_were_considered() -> None:
    async def program(env: AppEnvironment) -> None:
        reservation = env.reserve("m5.large", total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": reservation.id}])
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        )
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        by_type = {claim.metadata.labels[names.CAPACITY_TYPE]: claim for claim in await env.claims()}
        reserved, other = explained(by_type["reserved"]), explained(by_type["on-demand"])
        assert (reserved.reservation, reserved.usd_per_hour, reserved.pod_count) == (reservation.id, "0", 1)
        assert reserved.not_reserved == ()
        assert other.reservation is None
        assert other.usd_per_hour == "0.096"
        assert [(one.code, one.ids) for one in other.not_reserved] == [("Held", (reservation.id,))]
        assert other.changes[0] == f"A slot of reservation {reservation.id} that becomes free."
        pods = {pod for one in (reserved, other) for pod in one.pods}
        assert len(pods) == 2
        assert all(pod.startswith("default/web-") for pod in pods)
        for node in await env.nodes():
            assert names.EXPLANATION not in node.metadata.annotations

    app_environment.run(program)
