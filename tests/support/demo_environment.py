"""A story of the demo in virtual time: the embedded API server, the simulated AWS and the real controllers, without
sockets and threads."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import app_environment
import aws_environment
import kube_servers
from holdfast.api import crds
from holdfast.app import optional_kinds, sandbox
from holdfast.app.program import Adapters, App
from holdfast.app.sandbox import Sandbox
from holdfast.app.settings import Settings
from holdfast.demo.environment import CLUSTER_TIMINGS, Environment
from holdfast.demo.status import Status, StatusReader
from holdfast.demo.stories import Kind, Story
from holdfast.kube.client import Client
from holdfast.runtime.compute import InlineCompute
from holdfast.sim import optional_crds, time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.http import Address
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.aws.waiting import Timed
from holdfast.sim.cloud import Cloud
from holdfast.sim.cluster import Cluster
from holdfast.sim.cluster.kubelet_starter import Joined
from holdfast.sim.ids import SeededIds
from holdfast.sim.processes import Processes
from holdfast.sim.time import VirtualClock


@dataclass
class Play:
    """A story that runs in steps of a second."""

    env: Environment
    story: Story
    reader: StatusReader
    log: list[str]
    began_s: float
    seen: list[Status] = field(default_factory=list)  # one a second

    @property
    def status(self) -> Status:
        return self.seen[-1]

    async def until(self, at_s: float, *, has_steps: bool = True) -> Status:
        """Runs the story until this time of the story."""
        while (elapsed_s := self.env.clock.monotonic_s() - self.began_s) < at_s:
            self.env.check()
            if has_steps:
                await self.story.advance(elapsed_s)
            await self.story.react()
            self.seen.append(await self.reader.read(elapsed_s))
            await self.env.clock.sleep(1)
        return self.status


def run(kind: Kind, use: Callable[[Play], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock(kube_servers.START)
        transport = InProcess(ApiServer(clock=clock, ids=SeededIds("server")))
        kube = Client(
            transport=transport, clock=clock, ids=SeededIds("client"), settings=app_environment.CLIENT
        )
        await sandbox.install((*crds.all_crds(), *kind.setup.crds), transport, clock)
        about = kind.setup.cloud(clock.now_s())
        cloud = Cloud(about, clock=clock, ids=SeededIds("aws"))
        cluster = Cluster(
            api=kube,
            cloud=cloud.ec2,
            clock=clock,
            ids=SeededIds("cluster"),
            timings=CLUSTER_TIMINGS,
            joined=Joined(
                name=about.cluster, endpoint=about.kube_endpoint, ca_bundle=about.certificate_authority
            ),
            pod_groups=optional_crds.POD_GROUPS in kind.setup.crds,
        )
        settings = Settings(
            cluster_name=about.cluster,
            cluster_endpoint=about.kube_endpoint,
            cluster_ca_bundle=about.certificate_authority,
            service_cidr="10.96.0.0/16",
            kubernetes_version=about.kubernetes,
            interruption_queue=cloud.queue,
            optional_kinds=await optional_kinds.readable(kube),
            client=app_environment.CLIENT,
            strict=True,
        )
        adapters = Adapters(
            transport=transport,
            aws=aws_environment.SharedClients(cloud.endpoint),
            executor=Timed(cloud.endpoint),
            clock=clock,
            ids=SeededIds("program"),
            compute=InlineCompute(),
        )
        app = App(settings, adapters)
        app_environment.read_few_types(app)
        async with cloud.running():
            await cluster.start()
            app.start()
            box = Sandbox(
                cloud=cloud,
                cluster=cluster,
                transport=transport,
                kube=kube,
                address=Address(about.kube_endpoint, b""),
                kubeconfig=Path("kubeconfig"),
                aws_url="",
                programs=Processes(Path(), clock),
            )
            env, log = Environment(box, app, clock, ""), list[str]()
            story = kind.make(env, log.append)
            await story.start()
            while not story.is_ready:
                await clock.sleep(1)
            await use(Play(env, story, StatusReader(env), log, clock.monotonic_s()))
            await app.stop()
            await cluster.stop()

    time.run(main())
