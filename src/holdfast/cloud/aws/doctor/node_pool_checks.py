"""Checks of each NodePool with its EC2NodeClass: whether the two can launch something. Pure.

Called by `diagnosis`. The offerings of a NodePool are those that a NodeClaim with its requirements could have.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.findings import text_of
from holdfast.api.nodepool import NodePool
from holdfast.cloud.aws.catalog.labels import CLOUD_LABELS
from holdfast.cloud.aws.doctor import node_class_checks
from holdfast.cloud.aws.doctor.account_reading import ClassReading
from holdfast.cloud.aws.nodeclass import preflight
from holdfast.model import check_results, wording
from holdfast.model.check_results import CheckResult
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.snapshot import ClaimView
from holdfast.state.conversion import nodepools

CHECK: Final = "nodepool"
_KEEPS_PODS_OFF: Final = ("NoSchedule", "NoExecute")
_TO_CORRECT: Final = "correct spec.template.spec.requirements"


@dataclass(frozen=True, slots=True)
class PoolOfferings:
    """What a NodePool could launch, available or not."""

    pool: str
    class_name: str
    offerings: tuple[tuple[InstanceType, Offering], ...]

    @property
    def capacity_types(self) -> frozenset[str]:
        return frozenset(offering.capacity_type for _, offering in self.offerings)


def offerings(
    pools: Sequence[NodePool], classes: Mapping[str, ClassReading], kind: type[EC2NodeClass] = EC2NodeClass
) -> tuple[PoolOfferings, ...]:
    """Of the NodePools that are valid and whose class could be resolved. `kind`: of our classes."""
    found = []
    for pool in pools:
        if any(preflight.reference_problems(pool, (kind,))):
            continue
        class_name = pool.spec.template.spec.node_class_ref.name
        reading = classes.get(class_name)
        if reading is None or _invalid(pool) or isinstance(reading.types, errors.HoldfastError):
            continue
        wanted = ClaimView(pool.metadata.name, pool.metadata.name, nodepools.template_requirements(pool))
        suitable = tuple(
            (known, offering)
            for known in reading.types
            for offering in known.offerings
            if wanted.suits(known, offering, CLOUD_LABELS)
        )
        found.append(PoolOfferings(pool.metadata.name, class_name, suitable))
    return tuple(found)


def results(
    pools: Sequence[NodePool], classes: Mapping[str, ClassReading], kind: type[EC2NodeClass] = EC2NodeClass
) -> Iterator[CheckResult]:
    by_pool = {one.pool: one for one in offerings(pools, classes, kind)}
    ours = [pool for pool in pools if not any(preflight.reference_problems(pool, (kind,)))]
    for pool in sorted(pools, key=lambda one: one.metadata.name):
        if pool in ours:
            yield from _pool(pool, classes, by_pool.get(pool.metadata.name))
            yield from _shared_pods(pool, kind)
        else:
            yield from _not_ours(pool, kind)
    if not ours:
        yield check_results.warning(
            CHECK,
            "NodePool",
            f"there is none{' that Holdfast acts on' if pools else ''}, so nothing is launched",
            f"create a NodePool and its EC2NodeClass ({kind.api_version})",
        )


def _pool(
    pool: NodePool, classes: Mapping[str, ClassReading], possible: PoolOfferings | None
) -> Iterator[CheckResult]:
    about, reference = f"NodePool/{pool.metadata.name}", pool.spec.template.spec.node_class_ref
    invalid = _invalid(pool)
    reading = classes.get(reference.name)
    if invalid:
        for path, message in invalid:
            yield check_results.error(CHECK, about, f"{path}: {message}", f"correct {path}")
    elif reading is None:
        fix = f"create EC2NodeClass/{reference.name}, or correct spec.template.spec.nodeClassRef"
        yield check_results.error(CHECK, about, f"EC2NodeClass/{reference.name} does not exist", fix)
    elif possible is None or not node_class_checks.is_usable(reading):
        yield check_results.info(
            CHECK, about, f"not checked: EC2NodeClass/{reference.name} is not usable yet"
        )
    else:
        yield from _launches(about, pool, reading, possible)


def _not_ours(pool: NodePool, kind: type[EC2NodeClass]) -> Iterator[CheckResult]:
    """A NodePool of another autoscaler is information. One for --beside-karpenter is a warning without that setting:
    no program acts on it."""
    about, reference = f"NodePool/{pool.metadata.name}", pool.spec.template.spec.node_class_ref
    message = next(preflight.reference_problems(pool, (kind,))).message
    if (reference.group, reference.kind) == (aws.HOLDFAST_GROUP, EC2NodeClass.kind):
        fix = (
            "set --beside-karpenter, or move its pods to a NodePool with an EC2NodeClass of karpenter.k8s.aws"
        )
        yield check_results.warning(CHECK, about, message, fix)
    else:
        yield check_results.info(CHECK, about, message)


def _shared_pods(pool: NodePool, kind: type[EC2NodeClass]) -> Iterator[CheckResult]:
    """Beside Karpenter, a NodePool without a taint takes pods for which Karpenter launches nodes as well."""
    has_taint = any(taint.effect in _KEEPS_PODS_OFF for taint in pool.spec.template.spec.taints)
    if kind is HoldfastNodeClass and not has_taint:
        yield check_results.warning(
            CHECK,
            f"NodePool/{pool.metadata.name}",
            "has no taint: Holdfast and Karpenter both launch a node for a pod that fits it and a NodePool of Karpenter",
            "add a taint with effect NoSchedule, and to its pods a toleration and a nodeSelector",
        )


def _launches(
    about: str, pool: NodePool, reading: ClassReading, possible: PoolOfferings
) -> Iterator[CheckResult]:
    never = list(preflight.problems(pool, reading.node_class))
    if never:
        for finding in never:
            yield check_results.error(CHECK, about, finding.message, f"correct {text_of(finding.path)}")
        return
    name = reading.node_class.metadata.name
    available = [(known, offering) for known, offering in possible.offerings if offering.launchable]
    if not possible.offerings:
        words = f"no instance type of EC2NodeClass/{name} and this region meets its requirements"
        yield check_results.error(CHECK, about, words, _TO_CORRECT)
    elif available:
        types = sorted({known.name for known, _ in available})
        kinds = [one for one in names.CAPACITY_TYPES if any(o.capacity_type == one for _, o in available)]
        words = f"can launch {wording.count(len(types), 'instance type')}: {', '.join(kinds)}"
        yield check_results.ok(CHECK, about, words)
    elif possible.capacity_types == {names.RESERVED}:
        words = f"no slot of its reservations is free ({_reservations(possible)})"
        fix = "wait for a slot, enlarge a reservation, or allow on-demand"
        yield check_results.warning(CHECK, about, words, fix)
    else:
        words = "no instance type that meets its requirements works with the images and zones of its class"
        yield check_results.error(CHECK, about, f"{words} EC2NodeClass/{name}", _TO_CORRECT)


def _reservations(possible: PoolOfferings) -> str:
    return ", ".join(sorted({o.reservation_id for _, o in possible.offerings if o.reservation_id}))


def _invalid(pool: NodePool) -> list[tuple[str, str]]:
    found = nodepools.problems(pool, preflight.WELL_KNOWN_LABELS)
    return [(text_of(finding.path), finding.message) for finding in found]
