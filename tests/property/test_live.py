"""A snapshot that remembers what it saw before is the one that somebody would take who looks for the first time."""

import random

import pytest

import objects
from app_world import AppWorld
from holdfast import names
from holdfast.api.cluster import Namespace
from holdfast.api.meta import Object
from holdfast.api.workloads import DaemonSet
from holdfast.app import App
from holdfast.cloud.aws import labels as aws_labels
from holdfast.ports import Change
from holdfast.sim import time
from holdfast.state.live import Live

STEPS = 60
NODES = tuple(f"n-{number}" for number in range(4))
WAITS = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
FEATURES = {names.REGISTERED: "true", names.INITIALIZED: "true"}


class Cluster:
    """Objects that come, change and go, as a watch tells of them."""

    def __init__(self, app: App, dice: random.Random) -> None:
        self._app = app
        self._dice = dice
        self._version = 0

    def step(self) -> None:
        kind = self._dice.choice((self._pod, self._pod, self._pod, self._node, self._claim, self._around))
        self._version += 1
        obj = kind()
        change = "DELETED" if self._dice.random() < 0.25 else "MODIFIED"
        self._app.caches.of(type(obj)).apply(Change(change, obj))

    def _meta(self, **fields: object) -> dict[str, object]:
        return {"resourceVersion": str(self._version), **fields}

    def _pod(self) -> Object:
        dice, number = self._dice, self._dice.randrange(6)
        notes = {names.DO_NOT_DISRUPT: dice.choice(("true", "1m", "5m"))} if dice.random() < 0.3 else {}
        owner = objects.owned("DaemonSet", "ds") if number == 0 else {}
        meta = self._meta(uid=f"p-{number}", annotations=notes, creationTimestamp=objects.NOW, **owner)
        where = {"nodeName": dice.choice(NODES)} if dice.random() < 0.6 else {}
        size = [objects.container(cpu=dice.choice(("1", "2", "nonsense")))]
        phase = {"phase": "Succeeded"} if dice.random() < 0.2 else {}
        status = WAITS | phase | {"startTime": objects.NOW}
        return objects.pod(f"p-{number}", meta, status, containers=size, **where)

    def _node(self) -> Object:
        name, labels = self._dice.choice(NODES), {names.NODEPOOL: "default", names.INSTANCE_TYPE: "m5.large"}
        labels |= FEATURES if self._dice.random() < 0.5 else {}
        return objects.node(name, self._meta(labels=labels))

    def _claim(self) -> Object:
        name = self._dice.choice(NODES)
        status = {"providerID": f"cloud:///{name}", "nodeName": name} if self._dice.random() < 0.7 else {}
        return objects.nodeclaim(f"c-{name}", self._meta(labels={names.NODEPOOL: "default"}), status)

    def _around(self) -> Object:
        if self._dice.random() < 0.5:
            return objects.read(Namespace, "default", self._meta(labels={"team": self._dice.choice("ab")}))
        template = {"spec": {"containers": [objects.container(cpu=self._dice.choice("123"))]}}
        meta = self._meta(namespace="default")
        return objects.read(DaemonSet, "ds", meta, spec={"template": template})


@pytest.mark.parametrize("seed", range(20))
def test_what_is_remembered_is_what_is_there(seed: int) -> None:
    async def program() -> None:
        app = AppWorld().app
        cluster = Cluster(app, random.Random(seed))
        for _ in range(STEPS):
            cluster.step()
            await app.doors.clock.sleep(10)
            anew = Live(
                caches=app.caches,
                cloud=app.cloud,
                clock=app.doors.clock,
                key_aliases=aws_labels.KEY_ALIASES,
                ledger_lag_s=0,
            )
            assert await app.live.take() == await anew.take()

    time.run(program())
