"""`--gang-hold`: a large gang starts although smaller ones keep arriving."""

import dataclasses

import pytest

import app_environment
import provisioning_requests as documents
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.provisioning import ProvisioningRequest

MINUTE_S, HOUR_S = 60, 3600
NEVER = None


async def small_requests_arrive(env: AppEnvironment, numbers: range) -> None:
    """Two slots each, for ten minutes: nothing uses the bookings. Two of them use all four slots."""
    for i in numbers:
        await env.create(documents.PATH, documents.document(f"small-{i}", templates={"train": 2}))
        await env.sleep(5 * MINUTE_S)


async def provisioned_s(env: AppEnvironment, name: str) -> int | None:
    """How long after its creation a request was provisioned."""
    (one,) = (one for one in await env.all(ProvisioningRequest) if one.metadata.name == name)
    found = [
        one.last_transition_time
        for one in one.status.conditions
        if (one.type, one.status) == ("Provisioned", "True")
    ]
    if not found:
        return NEVER
    created, since = one.metadata.creation_timestamp, found[0]
    assert created is not None
    assert since is not None
    return int((since - created).total_seconds())


@pytest.mark.parametrize("hold_s", [0, HOUR_S])
def test_a_large_gang_starts_although_small_ones_keep_arriving(hold_s: int) -> None:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, gang_hold_s=hold_s)
    settings = dataclasses.replace(app_environment.SETTINGS, planning=planning)

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=4)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")])
        await env.create(documents.TEMPLATES, documents.template())
        await small_requests_arrive(env, range(2))
        await env.create(documents.PATH, documents.document("large", templates={"train": 4}))
        await small_requests_arrive(env, range(2, 14))
        waited_s = await provisioned_s(env, "large")
        if hold_s:
            assert waited_s is not None
            assert waited_s < 20 * MINUTE_S
        else:
            assert waited_s is NEVER

    app_environment.run(program, requests=True, settings=settings)
