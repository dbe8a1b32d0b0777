"""Explains the pods of one Job: how many run, and why the others do not. Pure."""

from collections.abc import Sequence
from typing import Final

from holdfast.api.pods import Pod
from holdfast.api.reports import Considered, Explanation, Fact
from holdfast.explain import pods
from holdfast.explain.pods import PodInput
from holdfast.model import wording
from holdfast.state.conversion import pod_states, times

KIND: Final = "job"
_EXAMPLES_MAX: Final = 3


def of_job(pod: Pod) -> tuple[str, ...]:
    """An index function: namespace/name of the Job that owns the pod."""
    return tuple(
        f"{pod.metadata.namespace}/{owner.name}"
        for owner in pod.metadata.owner_references
        if owner.kind == "Job" and owner.api_version.startswith("batch/")
    )


def explain(namespace: str, name: str, known: Sequence[PodInput], now_s: int) -> Explanation:
    """`known` is not empty."""
    ended = [one for one in known if pod_states.is_terminal(one.pod)]
    waiting = [one for one in known if not one.pod.spec.node_name and pod_states.is_active(one.pod)]
    bound = len(known) - len(ended) - len(waiting)
    groups: dict[tuple[str, str], list[str]] = {}
    for one in waiting:
        groups.setdefault(pods.group(one), []).append(one.pod.metadata.name)
    created = [times.epoch_s_or_none(one.pod.metadata.creation_timestamp) for one in known]
    state = f"{bound} on nodes, {len(waiting)} pending, {len(ended)} ended"
    return Explanation(
        at=now_s,
        kind=KIND,
        namespace=namespace,
        name=name,
        what=f"The Job has {wording.count(len(known), 'pod')}: {state}.",
        since=min((at for at in created if at is not None), default=None),
        why=tuple(
            f"{wording.count(len(found), 'pod')}: {text}" for (_, text), found in sorted(groups.items())
        ),
        considered=tuple(
            Considered(subject=f"pod {pod}", text=text)
            for (_, text), found in sorted(groups.items())
            for pod in sorted(found)[:_EXAMPLES_MAX]
        ),
        next=pods.REPLAN if waiting else "",
        facts=(Fact(name="Nodes", value=str(len({one.pod.spec.node_name for one in known} - {"", None}))),),
    )
