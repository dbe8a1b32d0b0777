"""Changes to the cluster while a fault is armed: scale-up, drift, interruption, restart and so on.

Each step changes the cluster once and returns; the campaign then waits until everything is settled. A clean run of all
steps shows which calls each of them makes, and so during which step a fault of a call can be injected.
"""

import random
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from faults.environment import FaultEnvironment
from faults.proxy import Injection
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.sim.cluster.kinds import Deployment
from holdfast.sim.ec2 import control

APP: Final = "any"
MIN_REPLICAS: Final = 2
MAX_REPLICAS: Final = 6
EXTRA: Final = "extra"
_DAY_S: Final = 86_400
_TAINT: Final = {"key": "example.com/extra", "value": "yes", "effect": "NoSchedule"}

Step = Callable[[FaultEnvironment, random.Random], Awaitable[None]]


async def grow(env: FaultEnvironment, _dice: random.Random) -> None:
    """One more pod, which needs one more node: reserved while slots are free, then on demand."""
    await env.scale(APP, env.judge.wanted[APP] + 1)


async def shrink(env: FaultEnvironment, _dice: random.Random) -> None:
    """Nodes become empty and are consolidated."""
    await env.scale(APP, MIN_REPLICAS)


async def replace(env: FaultEnvironment, dice: random.Random) -> None:
    """A user deletes a NodeClaim: its node is drained, and its pod needs another node."""
    claims = sorted((await env.kube.list(NodeClaim)).items, key=lambda one: one.metadata.name)
    if claims:
        await env.kube.delete(dice.choice(claims))


async def drift(env: FaultEnvironment, dice: random.Random) -> None:
    """The EC2NodeClass changes, so every node is replaced, those in a full reservation one after another."""
    await env.change_class(f"r{dice.getrandbits(32)}")


async def interrupt(env: FaultEnvironment, dice: random.Random) -> None:
    """AWS announces that an instance will stop; the notice arrives in the queue."""
    instances = sorted(one.id for one in env.judge.instances if one.event is None)
    if instances:
        at_s = env.clock.now_s() + _DAY_S
        control.schedule_event(env.cloud.ec2.region, dice.choice(instances), "instance-stop", at_s)


async def add_class(env: FaultEnvironment, _dice: random.Random) -> None:
    """A second EC2NodeClass with its NodePool, and a pod that only fits there."""
    await env.node_class(EXTRA)
    await env.pool(EXTRA, taints=[_TAINT], labels={"example.com/pool": EXTRA})
    await env.app(
        EXTRA,
        1,
        tolerations=[{"key": _TAINT["key"], "operator": "Exists"}],
        nodeSelector={"example.com/pool": EXTRA},
    )


async def remove_class(env: FaultEnvironment, _dice: random.Random) -> None:
    """The second EC2NodeClass is deleted with everything that belongs to it."""
    env.judge.wanted.pop(EXTRA, None)
    await env.kube.delete(await env.kube.get(Deployment, EXTRA, "default"))
    await env.kube.delete(await env.kube.get(NodePool, EXTRA))
    await env.kube.delete(await env.kube.get(EC2NodeClass, EXTRA))


async def restart(env: FaultEnvironment, dice: random.Random) -> None:
    """SIGTERM stops the process, and another is started. Sometimes the Lease is deleted in between."""
    old = env.current
    if old.running.is_running:
        old.signal(signal.SIGTERM)
    await old.running.ended()
    if dice.random() < 0.5:
        await env.replace_lease()
    following = await env.prepare()
    for before, after in zip(old.proxies, following.proxies, strict=True):
        after.injections = before.injections
    await following.start()
    if may_run("grow", env):
        await grow(env, dice)


STEPS: Final[dict[str, Step]] = {
    "grow": grow,
    "replace": replace,
    "shrink": shrink,
    "drift": drift,
    "interrupt": interrupt,
    "add-class": add_class,
    "remove-class": remove_class,
    "restart": restart,
}
# The order of a clean run. It ends as it began, so that it can be repeated.
CLEAN_RUN_STEPS: Final = (
    "restart",
    "grow",
    "replace",
    "drift",
    "interrupt",
    "add-class",
    "remove-class",
    "shrink",
    "restart",
)

# Approximate seconds of a step: a fault is injected during the cheapest step that makes its call.
COST: Final = {
    "grow": 5, "replace": 15, "interrupt": 15, "add-class": 15, "remove-class": 20, "restart": 20, "shrink": 40, "drift": 50,
}  # fmt: skip


def may_run(name: str, env: FaultEnvironment) -> bool:
    if name == "add-class":
        return EXTRA not in env.judge.wanted
    if name == "remove-class":
        return EXTRA in env.judge.wanted
    if name == "shrink":
        return env.judge.wanted[APP] > MIN_REPLICAS
    return name != "grow" or env.judge.wanted[APP] < MAX_REPLICAS


def waits_long(injection: Injection) -> bool:
    return injection.call.name == "sqs ReceiveMessage"
