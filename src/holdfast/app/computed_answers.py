"""The answers of `app.answers` without a leader: computed from the cluster's objects and the AWS account, read-only.

It is the code that the leader runs, on what `app.live` reads. What only a leader has in memory is missing: recent
decisions, nominations, and the reasons of disruption.
"""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence

from holdfast import errors
from holdfast.api.reports import (
    Explanation,
    ReservationsReport,
    SearchReport,
    SlotsReport,
    StatusReport,
)
from holdfast.app import explaining, live, settings
from holdfast.app.answers import Address
from holdfast.app.settings import Program
from holdfast.explain.server import Explain


def program_of(address: Address, *, environ: Mapping[str, str], no_leader: str) -> Program:
    """The settings of `holdfast run`. `no_leader`: why there is no answer of a leader. Raises Unreachable with it if
    settings are missing."""
    try:
        program = settings.read({}, environ)
    except errors.InvalidInput as error:
        raise errors.Unreachable(
            f"{no_leader}. Without a leader this command computes the answer itself, with the variables of"
            f" `holdfast run`: {error}"
        ) from error
    return dataclasses.replace(
        program,
        kubeconfig=address.kubeconfig or program.kubeconfig,
        context=address.context or program.context,
    )


@contextlib.asynccontextmanager
async def opened(
    program: Program, *, environ: Mapping[str, str], no_leader: str
) -> AsyncIterator["ComputedAnswers"]:
    """Raises what prevents reading."""
    async with live.reading(program, environ=environ) as cluster:
        await cluster.plan()
        missing = "; ".join(cluster.notes)
        computed = (
            f"No leader answers ({no_leader}). This command computed the answer from the cluster and the AWS account; "
            f"recent decisions and reasons of disruption are missing.{f' {missing}.' if missing else ''}"
        )
        yield ComputedAnswers(explaining.explain(cluster.app, computed=computed))


class ComputedAnswers:
    namespace = "default"

    def __init__(self, explain: Explain) -> None:
        self._explain = explain

    async def status(self) -> StatusReport:
        return await self._explain.reports.status()

    async def reservations(self) -> ReservationsReport:
        return await self._explain.reports.reservations()

    async def slots(self, reservation_ids: Sequence[str]) -> SlotsReport:
        return await self._explain.reports.slots(reservation_ids)

    async def search(self, text: str) -> SearchReport:
        return await self._explain.reports.search(text)

    async def explain(self, kind: str, namespace: str, name: str) -> Explanation:
        return await self._explain.answers.explain(kind, namespace, name)
