"""Builds a request for the planner from manifests and a Catalog.

The same objects give the same request, in whatever order the files are read. If there are mistakes, all are reported
with object and path, and nothing is planned. Objects that are ignored on purpose give a note.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast import errors
from holdfast.api import cluster, storage
from holdfast.api import scenario as wire
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.findings import Finding
from holdfast.api.kueue import Workload
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scheduler_config import SchedulerConfig
from holdfast.api.scheduling import PodGroup
from holdfast.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from holdfast.core.scheduling.input.request import Settings, SolveRequest
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.model import gangs, prices
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import RunTime
from holdfast.scenarios import catalog, catalog_documents, checks, workloads
from holdfast.scenarios.catalog import CatalogValues, CloudTerms, RegionTypes
from holdfast.scenarios.checks import Objects, Wrong, full_name
from holdfast.state.cluster import gang_topology, held_capacity
from holdfast.state.conversion import (
    default_spreads,
    nodepools,
    pod_shapes,
    pod_states,
    run_times,
    snapshot,
    times,
    volumes,
)
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import DEFAULT_NAMESPACE, PodContext
from holdfast.state.conversion.pods import PodConverter


@dataclass(frozen=True, slots=True)
class Scenario:
    request: SolveRequest
    rejected: tuple[Unplaced, ...]  # pods that are not in the request, with reasons
    notes: tuple[str, ...]  # NodePools and pods that are ignored, and why
    pod_names: Mapping[str, str]  # by uid


def find_catalog(objects: Sequence[Object]) -> wire.Catalog | tuple[Wrong, ...]:
    """The one Catalog of a scenario."""
    found = [obj for obj in objects if isinstance(obj, wire.Catalog)]
    if not found:
        return (
            Wrong(
                None,
                Finding(
                    (),
                    "no Catalog among the files: instance types and prices are unknown; see docs/scenario.md",
                ),
            ),
        )
    if len(found) > 1:
        return tuple(
            Wrong(obj, Finding((), "a scenario has one Catalog; there is another")) for obj in found[1:]
        )
    return found[0]


def settings(written: wire.Settings, flags: Mapping[str, Any]) -> Settings:
    """The planner's settings. Flags override the Catalog's settings, which override the defaults. Flags have the names
    of the fields of the Catalog's settings."""
    return overridden(overridden(Settings(), msgspec.structs.asdict(written)), flags)


def overridden(plain: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with others of a Catalog or of flags, by their names; None: not given."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in ("gang_hold", "reservation_wait", "start_estimate", "ledger_lag"):
            values[f"{name}_s"] = times.duration_s(value)
        elif name == "gangs_of":
            values[name] = gangs.sources(value)
        elif name == "node_cost":
            values["node_cost_nano"] = prices.parse(value)
        else:
            # Converts a string to an enumeration; numbers and booleans stay as they are.
            values[name] = type(getattr(plain, name))(value)
    return dataclasses.replace(plain, **values)


def build(
    objects: Sequence[Object],
    written: wire.Catalog,
    *,
    now_s: int,
    how: Settings,
    terms: CloudTerms,
    regions: Mapping[str, RegionTypes],
) -> Scenario | tuple[Wrong, ...]:
    """The request of a scenario, or all of its mistakes."""
    reading = Objects(objects)
    values = catalog_documents.read(written, terms)
    wrong = [Wrong(written, finding) for finding in values.findings]
    wrong += checks.wrong_region(written, regions)
    wrong += checks.unreadable(reading, terms)
    if wrong:
        return tuple(wrong)
    pods, template_claims = _all_pods(reading)
    rules = LabelRules(terms.labels.well_known, terms.key_aliases)
    converter = PodConverter(rules, _pod_context(reading, template_claims, written.spec.scheduler_config))
    converter.run_time_of = _RunTimes(reading).of
    wrong += checks.wrong_pods(reading, pods, converter)
    if wrong:
        return tuple(wrong)
    try:
        supply, notes = _supply(reading, values, written, now_s, terms, regions)
    except errors.InvalidInput as error:  # the region has nothing for one of the classes
        return (Wrong(written, Finding(("spec", "region"), str(error))),)
    built = snapshot.build(
        snapshot.Cluster(
            node_pools=reading.of(NodePool),
            node_claims=reading.of(NodeClaim),
            nodes=reading.of(Node),
            pods=pods,
            daemon_sets=reading.of(DaemonSet),
            budgets=reading.of(cluster.PodDisruptionBudget),
            csi_nodes=reading.of(storage.CSINode),
            pod_groups=reading.of(PodGroup),
        ),
        supply,
        converter,
        now_s=now_s,
        is_pending=pod_states.awaits_node,
        uid_of=_uid,
        gangs_of=how.gangs_of,
    )
    return Scenario(
        SolveRequest(gang_topology.tied(held_capacity.tainted(built.snapshot)), how),
        built.rejected,
        (*notes, *_passed_over(pods)),
        {_uid(pod): full_name(pod) for pod in pods},
    )


# --- Pods -------------------------------------------------------------------------------------------


def _uid(pod: Pod) -> str:
    """The planner orders pods of equal size and age by their uids. So the pods of a snapshot keep them."""
    return pod.metadata.uid or full_name(pod)


def _all_pods(reading: Objects) -> tuple[tuple[Pod, ...], tuple[storage.PersistentVolumeClaim, ...]]:
    """Pods of the files and pods of workloads, and the volume claims that are created with them."""
    given = [_named(pod, number) for number, pod in enumerate(reading.of(Pod))]
    expanded = workloads.expand(reading.workloads(), given)
    pods = (*given, *expanded.pods)
    ephemeral = [claim for pod in pods if pod.spec.volumes for claim in volumes.ephemeral_claims(pod)]
    return pods, (*expanded.claims, *ephemeral)


def _named(pod: Pod, number: int) -> Pod:
    """Appends a number to generateName; the API server would append random characters."""
    if pod.metadata.name:
        return pod
    return replace(pod, metadata=replace(pod.metadata, name=f"{pod.metadata.generate_name}{number}"))


class _RunTimes:
    """How long pods may run. Objects in files often have no uids, so Jobs are found by name."""

    def __init__(self, reading: Objects) -> None:
        self._jobs = {_name(job): job for job in reading.of(Job)}
        self._workloads = {
            (workload.metadata.namespace or DEFAULT_NAMESPACE, owner.name): workload
            for workload in reading.of(Workload)
            for owner in workload.metadata.owner_references
            if owner.kind == Job.kind
        }

    def of(self, pod: Pod) -> RunTime | None:
        for owner in pod.metadata.owner_references:
            if owner.kind == Job.kind:
                key = pod.metadata.namespace or DEFAULT_NAMESPACE, owner.name
                return run_times.run_time(pod, self._jobs.get(key), self._workloads.get(key))
        return run_times.run_time(pod)


def _name(job: Job) -> tuple[str, str]:
    return job.metadata.namespace or DEFAULT_NAMESPACE, job.metadata.name


def _pod_context(
    reading: Objects, template_claims: Iterable[storage.PersistentVolumeClaim], config: SchedulerConfig
) -> PodContext:
    classes = reading.of(storage.StorageClass)
    # A claim in the files takes precedence over one that is created from a template.
    all_claims = [
        workloads.stored(c, classes) for c in (*template_claims, *reading.of(storage.PersistentVolumeClaim))
    ]
    known = volumes.storage(all_claims, reading.of(storage.PersistentVolume), classes)
    makers: list[default_spreads.Maker] = [*reading.of(Deployment), *reading.of(ReplicaSet)]
    makers += [*reading.of(ReplicationController), *reading.of(StatefulSet)]
    spreads = [pod_shapes.spread(c) for c in config.pod_topology_spread.default_constraints]
    defaults = default_spreads.defaults(spreads, reading.of(cluster.Service), makers)
    return PodContext(reading.namespaces(), known, defaults)


def _passed_over(pods: Iterable[Pod]) -> Iterator[str]:
    for pod in pods:
        if pod.spec.node_name or not pod_states.is_active(pod) or pod_states.awaits_node(pod):
            continue
        if pod.spec.scheduling_gates:
            yield f"Pod {full_name(pod)} is passed over: it is behind a scheduling gate"
        elif pod.status.nominated_node_name:
            yield f"Pod {full_name(pod)} is passed over: it is on its way to {pod.status.nominated_node_name}"


# --- Supply -----------------------------------------------------------------------------------------


def _supply(
    reading: Objects,
    values: CatalogValues,
    written: wire.Catalog,
    now_s: int,
    terms: CloudTerms,
    regions: Mapping[str, RegionTypes],
) -> tuple[snapshot.Supply, list[str]]:
    classes = {
        (kind.api_version.partition("/")[0], one.metadata.name): one
        for kind in (EC2NodeClass, HoldfastNodeClass)
        for one in reading.of(kind)
    }
    by_class: dict[tuple[str, str], tuple[InstanceType, ...]] = {}
    by_pool: dict[str, tuple[InstanceType, ...]] = {}
    notes = []
    for pool in reading.of(NodePool):
        why = nodepools.why_no_nodes(pool, terms.node_classes, needs_ready=False)
        if why is not None:
            notes.append(f"NodePool {pool.metadata.name} opens no nodes: {why}")
            continue
        reference = pool.spec.template.spec.node_class_ref
        key = (reference.group, reference.name)
        node_class = classes.get(key)
        if reference.name in values.of_class:
            by_pool[pool.metadata.name] = values.of_class[reference.name]
            continue
        if node_class is None and values.listed:
            notes.append(
                f"NodePool {pool.metadata.name}: its class {reference.name} is not among the files, so it selects no reservations"
            )
        if key not in by_class:
            region = regions.get(written.spec.region or "")
            selected = terms.select(node_class, values.listed)
            shipped = region(node_class, selected, now_s) if region is not None else ()
            by_class[key] = catalog.types_of(values, selected, shipped, terms, now_s)
        by_pool[pool.metadata.name] = by_class[key]
    return snapshot.Supply(
        terms.labels,
        by_pool,
        values.reservations,
        times.epoch_s_or_none(written.spec.counts_read) or now_s,
        values.instances,
        values.count_before,
        values.of_class,
    ), notes
