"""Connects to the cluster and to AWS with the settings of `holdfast run`, reads both, and collects the results.

Called by `cli.doctor`. Checks of something that could not be read are left out, and one line names them.
"""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.answers import Unreadable
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodepool import NodePool
from holdfast.app import optional_kinds, production, rights
from holdfast.app.doctor import cluster_checks, cluster_reading, schema_checks
from holdfast.app.doctor.cluster_reading import ClusterReading
from holdfast.app.program import cluster_identity
from holdfast.app.settings import Program, Settings
from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.client.calls import Clients, Threads
from holdfast.cloud.aws.doctor import (
    account_checks,
    node_class_checks,
    node_pool_checks,
    reservation_checks,
)
from holdfast.cloud.aws.doctor.account_reading import AccountReader, AccountReading, AccountSettings
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection
from holdfast.kube.http import HttpTransport
from holdfast.model import check_results
from holdfast.model.check_results import CheckResult, Read
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.runtime.reads import value_or_error

SETTINGS: Final = "settings"
NOT_CHECKED: Final = "not-checked"
_CLIENT: Final = ClientSettings(attempts=2)


async def diagnose(
    program: Program, *, environ: Mapping[str, str], service_account: str = ""
) -> tuple[CheckResult, ...]:
    """All results, in the order in which problems are best solved. `service_account`: see `cluster_reading.read`."""
    clock = RealClock()
    results = list(_settings(program))
    try:
        connection = production.connect(program, environ, clock)
    except errors.InvalidInput as error:
        fix = "correct --kubeconfig and --context; kubectl version must work"
        results.append(check_results.error(cluster_checks.API_SERVER, "kubeconfig", str(error), fix))
        cluster, settings = None, program.app
    else:
        cluster, settings = await _read_cluster(program, connection, service_account)
        results += _cluster_results(cluster, settings, beside_karpenter=program.beside_karpenter)
    account = await _read_account(program.region, settings, _decoded(cluster, EC2NodeClass))
    results += _account_results(account, cluster, settings.ownership.kind)
    return tuple(results)


def _settings(program: Program) -> Iterator[CheckResult]:
    for name in program.without_effect:
        yield check_results.info(SETTINGS, f"--{name}", "is set and has no effect")


# --- The cluster ----------------------------------------------------------------------------------------


async def _read_cluster(
    program: Program, connection: Connection, service_account: str
) -> tuple[ClusterReading, Settings]:
    """With the settings that `holdfast run` would have."""
    clock = RealClock()
    election = program.app.election
    transport = HttpTransport(connection)
    try:
        kube = Client(transport=transport, clock=clock, ids=RealIds(), settings=_CLIENT)
        served = await value_or_error(optional_kinds.served(kube))
        wanted = rights.needed(
            lease_namespace=None if election is None else election.namespace or connection.namespace,
            lease_name="" if election is None else election.name,
            node_class=program.app.ownership.kind,
            has_spreads=bool(program.app.scheduler.pod_topology_spread.default_constraints),
            reads_dns=program.app.dns_ip is None,
            kinds=() if isinstance(served, errors.HoldfastError) else served,
        )
        found = await cluster_reading.read(
            kube,
            server=connection.server.url,
            clock=clock,
            rights=wanted,
            node_class=program.app.ownership.kind,
            service_account=service_account,
        )
        if isinstance(found.version, errors.HoldfastError):
            return found, program.app
        settings = await value_or_error(production.completed(program.app, kube, connection, found.version))
        return found, program.app if isinstance(settings, errors.HoldfastError) else settings
    finally:
        await transport.aclose()


def _cluster_results(
    cluster: ClusterReading, settings: Settings, *, beside_karpenter: bool
) -> Iterator[CheckResult]:
    yield from cluster_checks.api_server(cluster)
    if isinstance(cluster.version, errors.HoldfastError):
        yield check_results.info(
            NOT_CHECKED,
            "cluster",
            "not checked: CRDs, rights, Karpenter, NodePools and EC2NodeClasses need the API server",
        )
        return
    yield from schema_checks.results(cluster)
    yield from cluster_checks.rights(cluster)
    yield from cluster_checks.karpenter(cluster, beside=beside_karpenter)
    yield from cluster_checks.holdfast(cluster, metadata.version("holdfast"))
    yield from cluster_checks.clock(cluster)
    yield from cluster_checks.dns(settings.dns_ip)


def _decoded(cluster: ClusterReading | None, kind: type[Any]) -> Sequence[Any]:
    """The objects of a kind that could be decoded."""
    if cluster is None:
        return ()
    found: Read[Sequence[Any]] = cluster.node_pools if kind is NodePool else cluster.node_classes
    return () if isinstance(found, errors.HoldfastError) else [one for one in found if isinstance(one, kind)]


# --- The account ----------------------------------------------------------------------------------------


async def _read_account(
    region: str, settings: Settings, node_classes: Sequence[EC2NodeClass]
) -> Read[AccountReading]:
    async with _threads() as threads:
        clients = await value_or_error(threads.run(functools.partial(production.aws_clients, region)))
        if isinstance(clients, errors.HoldfastError):
            return clients
        with contextlib.closing(clients):
            return await _reader(clients, settings, threads).read(node_classes)


@contextlib.asynccontextmanager
async def _threads() -> AsyncIterator[Threads]:
    threads = Threads()
    try:
        yield threads
    finally:
        threads.close()


def _reader(clients: Clients, settings: Settings, threads: Threads) -> AccountReader:
    wanted = AccountSettings(
        given=cluster_identity(settings),
        kubernetes=settings.kubernetes_version,
        capacity=settings.capacity,
        queue=settings.interruption_queue,
        isolated_vpc=settings.isolated_vpc,
        dry_runs=settings.dry_runs,
    )
    return AccountReader(clients, wanted, executor=threads, clock=RealClock(), ids=RealIds())


def _account_results(
    account: Read[AccountReading], cluster: ClusterReading | None, kind: type[EC2NodeClass]
) -> Iterator[CheckResult]:
    """`kind`: of our node classes."""
    if isinstance(account, errors.HoldfastError):
        fix = "set --aws-region or AWS_REGION, and correct the AWS profile"
        yield check_results.error(account_checks.CREDENTIALS, "AWS configuration", str(account), fix)
        yield _needs_aws()
        return
    yield from account_checks.access(account)
    if account.cluster is None:
        yield _needs_aws()
        return
    pools = _decoded(cluster, NodePool)
    possible = node_pool_checks.offerings(pools, account.classes, kind)
    spot = [one.pool for one in possible if names.SPOT in one.capacity_types]
    only_spot = [one.pool for one in possible if one.capacity_types == {names.SPOT}]
    yield from account_checks.rights(account)
    yield from account_checks.cluster(account, _families(account))
    yield from account_checks.interruption_queue(account, uses_spot=bool(spot))
    yield from account_checks.spot_role(account, spot, only_spot)
    yield from cluster_checks.clock_difference("EC2", account.ec2_ahead_s)
    if cluster is None or isinstance(cluster.version, errors.HoldfastError):
        return
    yield from _object_results(account, cluster, pools, kind)
    if not isinstance(cluster.node_classes, errors.HoldfastError):
        if kind is EC2NodeClass:
            yield from reservation_checks.unselected(account)
        else:
            about, words = (
                "EC2NodeClass",
                "those of Karpenter are not read; they may select more reservations",
            )
            yield check_results.info(reservation_checks.CHECK, about, words)
        if not isinstance(cluster.node_pools, errors.HoldfastError):
            yield from reservation_checks.unused(account, possible)


def _object_results(
    account: AccountReading, cluster: ClusterReading, pools: Sequence[NodePool], kind: type[EC2NodeClass]
) -> Iterator[CheckResult]:
    checks: tuple[tuple[str, Read[Sequence[Any]], Callable[[], Iterator[CheckResult]]], ...] = (
        (EC2NodeClass.kind, cluster.node_classes, lambda: node_class_checks.results(account)),
        (NodePool.kind, cluster.node_pools, lambda: node_pool_checks.results(pools, account.classes, kind)),
    )
    for name, read, check in checks:
        if isinstance(read, errors.HoldfastError):
            # That the CRD is missing, or the right, is a result of its own.
            yield check_results.info(NOT_CHECKED, name, f"cannot be listed: {read}")
        else:
            yield from _unreadable([one for one in read if isinstance(one, Unreadable)])
            yield from check()


def _unreadable(objects: Sequence[Unreadable]) -> Iterator[CheckResult]:
    for one in objects:
        about, fix = f"{one.kind}/{one.metadata.name}", "correct the object, or delete it"
        yield check_results.error(one.kind.lower(), about, f"cannot be read: {one.problem}", fix)


def _families(account: AccountReading) -> Iterator[str]:
    for reading in account.classes.values():
        with contextlib.suppress(errors.InvalidInput):  # a result of the class
            yield families.of(reading.node_class).name


def _needs_aws() -> CheckResult:
    return check_results.info(
        NOT_CHECKED,
        "account",
        "not checked: rights, queue, reservations, EC2NodeClasses and NodePools need AWS",
    )
