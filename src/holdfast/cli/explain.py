"""`holdfast explain`: shows what an object is, why, what else was considered, and what would change it."""

import contextlib
import difflib
from typing import Final

import click
from click.shell_completion import CompletionItem

from holdfast import errors
from holdfast.api.reports import Explanation, SearchHit, SearchReport
from holdfast.app.answers import NAMESPACED, Answers
from holdfast.cli import explain_page, leader
from holdfast.cli.page import clean

# Every kind with its spellings: plurals and short names as in kubectl.
_SPELLINGS: Final = {
    "pod": ("pods", "po"),
    "node": ("nodes", "no"),
    "nodeclaim": ("nodeclaims", "claim", "claims"),
    "nodepool": ("nodepools", "pool", "pools"),
    "reservation": ("reservations", "cr", "capacityreservation", "capacityreservations"),
    "job": ("jobs",),
    "jobset": ("jobsets",),
    "leaderworkerset": ("leaderworkersets", "lws"),
    "podgroup": ("podgroups",),
    "provisioningrequest": ("provisioningrequests", "provreq", "provreqs"),
}
_KINDS: Final = {spelling: kind for kind, others in _SPELLINGS.items() for spelling in (kind, *others)}
_KNOWN_BY_PODS: Final = ("jobset", "leaderworkerset")  # Holdfast does not read these kinds
_NEAR_MAX: Final = 5
_SEARCHES_MAX: Final = 4
_SEARCH_MIN: Final = 3  # characters


def _complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in _SPELLINGS if kind.startswith(incomplete.lower())]


def _complete_name(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    kind = _KINDS.get(ctx.params.get("kind") or "")
    if kind is None:
        return []
    none = SearchReport(at=0)
    report = leader.ask_for_completion(ctx, lambda found: found.search(incomplete or kind), none)
    namespace = ctx.params.get("namespace")
    hits = [hit for hit in report.items if hit.kind == kind and namespace in {None, hit.namespace}]
    names = [f"{hit.namespace}/{hit.name}" if "/" in incomplete else hit.name for hit in hits]
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and clean(name) == name]


@click.command(epilog=leader.EXIT_CODES)
@click.argument("kind", shell_complete=_complete_kind)
@click.argument("name", required=False, shell_complete=_complete_name)
@click.option("-n", "--namespace", metavar="NAME", help="Of the object.  [default: that of the context]")
@leader.options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    kind: str,
    name: str | None,
    namespace: str | None,
    output: str | None,
    **_where: str,
) -> None:
    """Show why a pod waits, why a job does not start, or why a node is what it is.

    Prints what the object is, since when, why, what was considered and why not, what would change it, and when it is
    evaluated again. KIND is pod, node, nodeclaim, nodepool, reservation, job, jobset, leaderworkerset, podgroup or
    provisioningrequest; plurals, short names and KIND/NAME work as with kubectl, and NAMESPACE/NAME as well. Asks the
    leader; reads only.
    """
    wanted, wanted_name = _target(kind, name)
    given, _, own = wanted_name.partition("/")
    if wanted in NAMESPACED and given and own:
        if namespace not in {None, given}:
            raise click.UsageError(f"the namespace is {given} in the name and {namespace} in --namespace")
        namespace, wanted_name = given, own
    report = leader.ask(ctx, lambda found: _explain(ctx, found, wanted, wanted_name, namespace))
    leader.write(output, report, lambda wide: explain_page.build(report, wide=wide))


def _target(kind: str, name: str | None) -> tuple[str, str]:
    if "/" in kind and name is None:
        kind, _, name = kind.partition("/")
    found = _KINDS.get(kind.partition(".")[0].lower())  # nodeclaims.karpenter.sh
    if found is None:
        raise click.BadParameter(f"{kind!r} is none of {', '.join(_SPELLINGS)}", param_hint="KIND")
    if not name:
        raise click.UsageError(f"a name is missing: explain {found} NAME")
    return found, name


async def _explain(
    ctx: click.Context, answers: Answers, kind: str, name: str, namespace: str | None
) -> Explanation:
    namespace = (namespace or answers.namespace) if kind in NAMESPACED else ""
    try:
        return await answers.explain(kind, namespace, name)
    except errors.NotFound as error:
        near: list[str] = []
        with contextlib.suppress(errors.HoldfastError):  # the object is missing, whatever the search returns
            near = [_how_to_ask(ctx, hit) for hit in await _near(answers, kind, name)]
        hint = "\n".join(("\nDid you mean:", *(f"  {line}" for line in near))) if near else ""
        where = f" in namespace {namespace}" if namespace else ""
        missing = f"there are no pods of {kind}" if kind in _KNOWN_BY_PODS else f"there is no {kind}"
        raise errors.NotFound(f"{missing} {name}{where}{hint}") from error


async def _near(answers: Answers, kind: str, name: str) -> list[SearchHit]:
    """Objects with a similar name: those of the kind first, then by similarity."""
    text, hits = name, tuple[SearchHit, ...]()
    for _ in range(_SEARCHES_MAX):
        hits = (await answers.search(text)).items
        if hits or len(text) <= _SEARCH_MIN:
            break
        text = text.rpartition("-")[0] or text[: len(text) // 2]
        text = text if len(text) >= _SEARCH_MIN else name[:_SEARCH_MIN]
    hits = tuple(hit for hit in hits if hit.kind in _SPELLINGS)

    def order(hit: SearchHit) -> tuple[bool, float]:
        return hit.kind != kind, -difflib.SequenceMatcher(None, name, hit.name).ratio()

    return sorted(hits, key=order)[:_NEAR_MAX]


def _how_to_ask(ctx: click.Context, hit: SearchHit) -> str:
    namespace = f" -n {clean(hit.namespace)}" if hit.kind in NAMESPACED and hit.namespace else ""
    return f"{ctx.command_path} {hit.kind} {clean(hit.name)}{namespace}"
