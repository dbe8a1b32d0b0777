"""Explains Jobs, JobSets, LeaderWorkerSets, PodGroups and ProvisioningRequests, and lists the gangs that wait: finds what
is known about them.

All of these kinds are optional. If the API server does not serve a kind, no object of it is found. JobSets and
LeaderWorkerSets are not read: labels of pods name them, and owner references of Workloads.
"""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final, TypeVar

from holdfast import errors
from holdfast.api.kueue import Workload
from holdfast.api.meta import Object
from holdfast.api.pods import Pod
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.reports import Explanation, GangRow, GangsReport, NodeRow
from holdfast.api.scheduling import PodGroup
from holdfast.api.workloads import JobTimes
from holdfast.explain import gangs, jobs, requests
from holdfast.explain.gangs import GangInput, GroupInput, NodeUse
from holdfast.explain.jobs import JobInput
from holdfast.explain.reports import Reports
from holdfast.explain.requests import PodSetUse, RequestInput
from holdfast.explain.sources import Sources
from holdfast.model import wording
from holdfast.model.gangs import JOB_SET, LABELLED, LEADER_WORKER_SET, POD_GROUP, PROVISIONING_REQUEST, Gang
from holdfast.model.reasons import Reason
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache, Index
from holdfast.state.conversion import gangs as group_states
from holdfast.state.conversion import labelled_gangs, pod_states, provisioning_requests, times
from holdfast.state.conversion.provisioning_requests import Converted
from holdfast.state.conversion.run_times import Limit

K = TypeVar("K", bound=Object)

_RESERVATIONS_MAX: Final = 10
_LISTED_MAX: Final = 100
_GROUPS_MAX: Final = 5  # PodGroups of one Job
_SCHEDULED: Final = "PodScheduled"

NotReserved = Callable[[AbstractSet[str]], Awaitable[tuple[Reason, ...]]]


class GangAnswers:
    def __init__(self, sources: Sources, reports: Reports, not_reserved: NotReserved) -> None:
        """`not_reserved`: why pods are in none of the reservations, by a plan for them alone."""
        self._cluster_state = sources.cluster_state
        self._clock = sources.clock
        self._reports = reports
        self._not_reserved = not_reserved
        caches = sources.caches
        self._requests, self._groups = caches.find(ProvisioningRequest), caches.find(PodGroup)
        self._jobs, self._pods = caches.find(JobTimes), caches.of(Pod)
        self._pods_by_uid = self._pods.index(indexes.by_uid)
        self._pods_of_job = self._pods.index(jobs.of_job)
        self._pods_of_group = self._pods.index(group_states.group_of)
        self._pods_of_set = self._pods.index(labelled_gangs.names_of)
        self._pods_of_request = self._pods.index(provisioning_requests.consumed_by)
        self._owned_requests = _by_owner(self._requests)
        self._owned_groups = _by_owner(self._groups)
        workloads = caches.find(Workload)
        self._workloads_of = workloads.index(_owner_names) if workloads is not None else None

    async def pod_group(self, namespace: str, name: str) -> Explanation:
        """Raises NotFound."""
        found = self._pod_group(namespace, name)
        if found is None:
            raise errors.NotFound(f'podgroups "{name}" not found in namespace "{namespace}"')
        return gangs.explain(replace(found, known=await self._detailed(found.known)))

    async def request(self, namespace: str, name: str) -> Explanation:
        """Raises NotFound."""
        request = self._requests.get((namespace, name)) if self._requests is not None else None
        if request is None:
            raise errors.NotFound(f'provisioningrequests "{name}" not found in namespace "{namespace}"')
        found = self._request(request)
        known = await self._detailed(found.known) if found.known is not None else None
        return requests.explain(replace(found, known=known))

    async def job(self, namespace: str, name: str) -> Explanation:
        """Raises NotFound."""
        job = self._jobs.get((namespace, name)) if self._jobs is not None else None
        pods = list(self._pods_of_job.get(f"{namespace}/{name}"))
        if job is None and not pods:
            raise errors.NotFound(f'jobs "{name}" not found in namespace "{namespace}"')
        uids = [job.metadata.uid] if job is not None else []
        uids += [one.uid for pod in pods for one in pod.metadata.owner_references if one.name == name]
        run_times = self._cluster_state.run_times
        workloads = [run_times.workload_of(uid) for uid in dict.fromkeys(uids)]
        workload = next((one for one in workloads if one is not None), None)
        owners = (*uids, *((workload.metadata.uid,) if workload is not None else ()))
        requests_ = self._requests_of(owners, pods)[-1:]
        limits = run_times.limits(pods)
        if not pods:
            limits = run_times.limits_of_job(job) if job is not None else ()
            limits += self._limits_of(requests_)
        return jobs.explain(
            JobInput(
                namespace=namespace,
                name=name,
                now_s=self._clock.now_s(),
                job=job,
                pods=[self._reports.pod_input(pod) for pod in pods],
                workload=_full_name(workload),
                gangs=await self._gangs_of(uids, requests_, pods),
                limits=tuple(dict.fromkeys(limits)),
            )
        )

    async def job_set(self, namespace: str, name: str) -> Explanation:
        """Raises NotFound."""
        return await self._labelled(JOB_SET, namespace, name)

    async def leader_worker_set(self, namespace: str, name: str) -> Explanation:
        """Of the set, or of one of its groups. Raises NotFound."""
        return await self._labelled(LEADER_WORKER_SET, namespace, name)

    async def _labelled(self, source: str, namespace: str, name: str) -> Explanation:
        found = list(self._pods_of_set.get(f"{source}/{namespace}/{name}"))
        own = [pod for pod in found if labelled_gangs.set_name(source, pod) == name]
        pods = own or found
        index = self._workloads_of
        workloads = list(index.get(f"{source}/{namespace}/{name}")) if index is not None else []
        if not pods and not workloads:
            raise errors.NotFound(f'no pod of {source} "{name}" found in namespace "{namespace}"')
        requests_ = self._requests_of([one.metadata.uid for one in workloads], pods)[-_GROUPS_MAX:]
        limits = self._cluster_state.run_times.limits(pods) or self._limits_of(requests_)
        return jobs.explain(
            JobInput(
                kind=source.lower(),
                noun="group" if source == LEADER_WORKER_SET and not own and pods else source,
                namespace=namespace,
                name=name,
                now_s=self._clock.now_s(),
                pods=[self._reports.pod_input(pod) for pod in pods],
                workload=wording.listed(sorted(map(_full_name, workloads))),
                gangs=[*await self._gangs_of_labels(pods), *await self._gangs_of((), requests_, pods)],
                limits=limits,
            )
        )

    async def _gangs_of_labels(self, pods: Sequence[Pod]) -> list[Explanation]:
        """The gangs that these pods are members of, the first that waits first."""
        found = {one.key: one for pod in pods if (one := self._cluster_state.gang_of(pod)) is not None}
        groups = sorted(map(self._group, found.values()), key=lambda one: one.known.gang.rank)
        groups.sort(key=lambda one: not one.known.gang.is_waiting)
        return [
            gangs.explain(replace(one, known=await self._detailed(one.known))) for one in groups[:_GROUPS_MAX]
        ]

    async def report(self) -> GangsReport:
        """The gangs that wait for nodes or book them, sorted by rank."""
        await self._reports.inventory.see_changed()
        found = [one for one in self._cluster_state.gangs() if one.is_waiting]
        rows = []
        for one in found[:_LISTED_MAX]:
            rows.append(self._row(one))
            await self._clock.sleep(0)
        items = tuple(row for row in rows if row is not None)
        return GangsReport(at=self._clock.now_s(), total=len(found), items=items)

    # --- One object -----------------------------------------------------------------------------------

    def _row(self, gang: Gang) -> GangRow | None:
        namespace, _, name = gang.name.partition("/")
        if gang.source == PROVISIONING_REQUEST:
            live = self._cluster_state.requests.get((namespace, name))
            if live is None:
                return None
            request = self._request(live.request)
            answer, state = requests.explain(request), requests.state_of(request)
            pods, located = len(live.converted.pods), live.bound
            known = request.known
            assert known is not None, "it is live"
        else:
            group = self._group(gang) if gang.source in LABELLED else self._pod_group(namespace, name)
            if group is None:
                return None
            answer, state = gangs.explain(group), gangs.state_of(group)
            pods, located, known = len(gang.bound | gang.unbound), 0, group.known
        located += len(known.gang.bound)
        return GangRow(
            kind=answer.kind,
            namespace=namespace,
            name=name,
            state=state,
            since=answer.since,
            pods=pods,
            needed=gang.least or 0,
            located=located,
            text=gangs.summary(known, answer.why) or answer.what,
        )

    def _group(self, gang: Gang) -> GroupInput:
        """The gang of a JobSet, or of a group of a LeaderWorkerSet."""
        namespace, _, name = gang.name.partition("/")
        members = [pod for uid in (*gang.bound, *gang.unbound) for pod in self._pods_by_uid.get(uid)]
        return self._group_of(
            gang, members, kind=gang.source.lower(), namespace=namespace, name=name, created_s=gang.since_s
        )

    def _pod_group(self, namespace: str, name: str) -> GroupInput | None:
        full_name = f"{namespace}/{name}"
        if self._groups is None:
            return None
        group = self._groups.get((namespace, name))
        members = [pod for pod in self._pods_of_group.get(full_name) if pod_states.is_active(pod)]
        if group is None and not members:
            return None
        is_gang = group is None or group_states.is_gang(group)
        gang = (
            group_states.gang(full_name, group, members, _uid)
            if is_gang
            else Gang(full_name, full_name, POD_GROUP, 0)
        )
        return self._group_of(
            gang,
            members,
            namespace=namespace,
            name=name,
            exists=group is not None,
            created_s=times.epoch_s_or_none(group.metadata.creation_timestamp) if group is not None else None,
            is_gang=is_gang,
        )

    def _group_of(self, gang: Gang, members: Sequence[Pod], **fields: Any) -> GroupInput:
        bound = [pod for pod in members if pod.spec.node_name]
        left = [pod for pod in members if not pod.spec.node_name]
        targets = {pod.metadata.uid: pod.spec.node_name for pod in bound}
        known = self._known(gang, targets, self._cluster_state.run_times.limits(members))
        located = known.gang.bound
        ready = [pod for pod in left if pod.metadata.uid in located or pod_states.is_provisionable(pod)]
        created = [times.epoch_s_or_none(pod.metadata.creation_timestamp) for pod in left]
        return GroupInput(
            known=known,
            bound=len(bound),
            ready=len(bound) + len(ready),
            waiting_since_s=min((at for at in created if at is not None), default=None),
            bound_since_s=_bound_since_s(bound, gang.least or 0),
            **fields,
        )

    def _request(self, request: ProvisioningRequest) -> RequestInput:
        meta, watched = request.metadata, self._cluster_state.requests
        live = watched.get((meta.namespace, meta.name))
        workload = watched.workload_of(request)
        used = {
            pod.metadata.uid: pod.spec.node_name
            for pod in self._pods_of_request.get(f"{meta.namespace}/{meta.name}")
            if pod.spec.node_name and pod_states.is_active(pod)
        }
        known = self._known(live.gang, used, watched.limits(request)) if live is not None else None
        return RequestInput(
            known=known,
            request=request,
            now_s=self._clock.now_s(),
            is_ours=watched.is_ours(request),
            problems=_problems(live.converted) if live is not None else (),
            has_quota=live is None or live.has_quota,
            pod_sets=self._pod_sets(request, known),
            workload=_full_name(workload),
            nodes=self._nodes(used.values()),
        )

    def _pod_sets(self, request: ProvisioningRequest, known: GangInput | None) -> tuple[PodSetUse, ...]:
        """Where the virtual pods of each podSet are. Those of a request that is not live are only counted."""
        if known is None:
            return tuple(
                PodSetUse(template=one.pod_template_ref.name, count=one.count)
                for one in request.spec.pod_sets
            )
        target_of = self._cluster_state.nominations.target_of
        left, located = Counter[int](), Counter[tuple[int, bool]]()
        ready = {name for use in known.nodes if use.is_ready for name in (use.row.name, use.row.node_claim)}
        for uid in known.gang.bound | known.gang.unbound:
            number, target = provisioning_requests.pod_set_of(uid), target_of(uid)
            left[number] += 1
            if target is not None:
                located[number, target in ready] += 1
        return tuple(
            PodSetUse(
                template=one.pod_template_ref.name,
                count=one.count,
                bound=one.count - left[number],
                ready=located[number, True],
                starting=located[number, False],
                is_live=True,
            )
            for number, one in enumerate(request.spec.pod_sets)
        )

    # --- Parts ----------------------------------------------------------------------------------------

    def _known(self, gang: Gang, used: Mapping[str, str], limits: Sequence[Limit]) -> GangInput:
        """`used`: the nodes of pods that are bound, by uid. Without reservations; `_detailed` adds them."""
        plan, nominations = self._cluster_state.reasons.plan, self._cluster_state.nominations
        nominated = {uid: target for uid in gang.unbound if (target := nominations.target_of(uid))}
        unplaced = plan.unplaced if plan is not None else {}
        left_out = (unplaced[uid].reasons for uid in sorted(gang.unbound) if uid in unplaced)
        return GangInput(
            gang=gang.with_nominated(nominated.keys()),
            now_s=self._clock.now_s(),
            planned_s=plan.at_s if plan is not None else None,
            reasons=next(left_out, ()),
            planned=sum(uid in plan.claims for uid in gang.unbound) if plan is not None else 0,
            nodes=self._nodes((*used.values(), *nominated.values())),
            limits=limits,
        )

    async def _detailed(self, known: GangInput) -> GangInput:
        is_left_out = known.gang.is_waiting and known.reasons
        not_reserved = await self._not_reserved(known.gang.unbound) if is_left_out else ()
        used = {use.row.reservation for use in known.nodes}
        named = used.union(id_ for reason in known.reasons for id_ in reason.subjects)
        listed = (await self._reports.reservations()).items
        return replace(
            known,
            waiting=self._waiting(),
            not_reserved=not_reserved,
            reservations=[row for row in listed if row.id in named][:_RESERVATIONS_MAX],
        )

    def _waiting(self) -> list[Gang]:
        """Those that are planned."""
        nominated = {uid for uid, _ in self._cluster_state.nominations}
        without = {one.gang.key for one in self._cluster_state.requests.live() if not one.has_quota}
        found = (gang.with_nominated(nominated) for gang in self._cluster_state.gangs())
        return [gang for gang in found if gang.is_waiting and gang.key not in without]

    def _nodes(self, targets: Iterable[str]) -> tuple[NodeUse, ...]:
        """The nodes and NodeClaims of these names, sorted by name, and how often each is named."""
        counts: Counter[str] = Counter()
        rows: dict[str, NodeRow] = {}
        for target, count in Counter(targets).items():
            row = self._reports.inventory.of_claim(target) or self._reports.inventory.of_node(target)
            if row is not None:
                rows[row.name] = row
                counts[row.name] += count
        return tuple(
            NodeUse(rows[name], self._reports.claim_of(rows[name].node_claim), counts[name])
            for name in sorted(rows)
        )

    async def _gangs_of(
        self, uids: Sequence[str], requests_: Sequence[ProvisioningRequest], pods: Sequence[Pod]
    ) -> list[Explanation]:
        """The ProvisioningRequests that a Job waits for, and the PodGroups of its pods."""
        found: list[Explanation] = []
        for request in requests_:
            meta = request.metadata
            is_live = self._cluster_state.requests.get((meta.namespace, meta.name)) is not None
            if is_live or not any(pod.spec.node_name for pod in pods):
                found.append(await self.request(meta.namespace, meta.name))
        names = dict.fromkeys(name for pod in pods for name in group_states.group_of(pod))
        if not pods and not requests_ and self._owned_groups is not None:
            groups = [group for uid in uids for group in self._owned_groups.get(uid)]
            names |= dict.fromkeys(_full_name(group) for group in groups)
        for name in list(names)[:_GROUPS_MAX] if self._groups is not None else ():
            namespace, _, own = name.partition("/")
            with contextlib.suppress(errors.NotFound):
                found.append(await self.pod_group(namespace, own))
        return found

    def _requests_of(self, owners: Sequence[str], pods: Sequence[Pod]) -> list[ProvisioningRequest]:
        """The requests of these owners and pods, the newest last. `owners`: uids of the Job and its Workload."""
        if self._requests is None or self._owned_requests is None:
            return []
        found = [request for uid in owners for request in self._owned_requests.get(uid)]
        for name in dict.fromkeys(name for pod in pods for name in provisioning_requests.consumed_by(pod)):
            namespace, _, own = name.partition("/")
            named = self._requests.get((namespace, own))
            found += [named] if named is not None else []
        return sorted({one.metadata.uid: one for one in found}.values(), key=_age)

    def _limits_of(self, requests_: Sequence[ProvisioningRequest]) -> tuple[Limit, ...]:
        return tuple(one for request in requests_ for one in self._cluster_state.requests.limits(request))


def _problems(converted: Converted) -> tuple[str, ...]:
    missing = (f"PodTemplate {name} does not exist." for name in converted.missing)
    return (*missing, *(f"{reason.sentence}." for reason in converted.problems))


def _by_owner(cache: Cache[K] | None) -> Index[K] | None:
    return cache.index(_owners) if cache is not None else None


def _owners(obj: Object) -> tuple[str, ...]:
    return tuple(owner.uid for owner in obj.metadata.owner_references)


def _owner_names(obj: Object) -> tuple[str, ...]:
    return tuple(f"{one.kind}/{obj.metadata.namespace}/{one.name}" for one in obj.metadata.owner_references)


def _age(obj: Object) -> tuple[int, str]:
    return times.epoch_s_or_none(obj.metadata.creation_timestamp) or 0, obj.metadata.name


def _full_name(obj: Object | None) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}" if obj is not None else ""


def _uid(pod: Pod) -> str:
    return pod.metadata.uid


def _bound_since_s(bound: Sequence[Pod], least: int) -> int | None:
    """When enough pods of a gang were bound."""
    found = sorted(
        times.epoch_s(one.last_transition_time)
        for pod in bound
        for one in pod.status.conditions
        if one.type == _SCHEDULED and one.status == "True" and one.last_transition_time is not None
    )
    return found[least - 1] if 0 < least <= len(found) else None
