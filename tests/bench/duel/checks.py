"""Whether each part of the story did something in a run, from what was recorded: a run without it compares nothing.

Each check is one that both programs must pass. They are results, not assertions: the table shows a failed one.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from bench.duel import settings
from bench.duel.measures import Sample
from bench.duel.recording import Recording
from bench.duel.story import BLOCK_DRAINS_S, Story

END_S: Final = 30  # a pod that is moved in the last seconds is not a failure


def checks(recorded: Recording, story: Story, claims: Iterable[dict[str, Any]]) -> dict[str, bool]:
    samples = recorded.samples
    last = samples[-1]

    def most(value: Callable[[Sample], int]) -> int:
        return max(value(one) for one in samples)

    def used(reservation: str) -> int:
        return most(lambda one: one.in_reservation.get(reservation, 0))

    def ran_at_end(app: str, count: int) -> bool:
        return any(one.ready.get(app, 0) == count for one in samples if one.at_s >= last.at_s - END_S)

    drains_s = story.began_s + BLOCK_DRAINS_S * story.scale
    return {
        "all 9 pods of web ran at once": most(lambda one: one.ready.get("web", 0)) == 9,
        "all 8 pods of api ran at once": most(lambda one: one.ready.get("api", 0)) == 8,
        "the targeted reservation was used": used(settings.TARGETED) > 0,
        "the shared reservation was used": used(settings.SHARED) > 0,
        "another account took 2 slots": most(lambda one: one.elsewhere.get(settings.SHARED, 0)) == 2,
        "another account released them": last.elsewhere.get(settings.SHARED, 0) == 0,
        "the second reservation was used": used(settings.SECOND) > 0,
        "the open reservation was used": used(settings.OPEN) > 0,
        "an instance that no NodePool launched was in the open reservation": story.unmanaged_in_slot,
        "the heavier NodePool was full, and the lighter one had nodes": any(
            one.vcpus.get("api-first", 0) == int(settings.FIRST_POOL_CPU) and one.nodes.get("api-rest", 0) > 0
            for one in samples
        ),
        "nodes of web were replaced after the drift": any(
            one.tags[settings.POOL_TAG] == "web" and id_ in recorded.ended
            for id_, one in recorded.launched.items()
        )
        and _all_blue(claims),
        "the block was used": used(settings.BLOCK) > 0,
        "the block was in use when its drain was due": any(
            one.in_reservation.get(settings.BLOCK, 0) > 0 for one in samples if one.at_s >= drains_s
        ),
        "the block was drained": settings.BLOCK not in last.in_reservation,
        "the pods of the block ran on other nodes at the end": ran_at_end("train", settings.BLOCK_SLOTS),
        "a spot instance was interrupted and ended": bool(story.interrupted)
        and story.interrupted <= recorded.ended,
        "all pods of batch ran at the end": ran_at_end("batch", 3),
        "all pods of web and api ran at the end": ran_at_end("web", 5) and ran_at_end("api", 3),
    }


def _all_blue(claims: Iterable[dict[str, Any]]) -> bool:
    """Whether no NodeClaim of web has the template of before the drift."""
    web = [one for one in claims if one["metadata"]["labels"][settings.POOL_TAG] == "web"]
    return all(one["metadata"]["labels"].get(settings.COLOUR_LABEL) == "blue" for one in web)
