"""The simulated cluster in real time over HTTPS, as with kubectl."""

import asyncio
import base64
from dataclasses import replace

import cluster_environment
from holdfast.api.meta import ObjectMeta
from holdfast.cloud.aws.launch import userdata
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap
from holdfast.kube import credentials
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Credential
from holdfast.kube.http import HttpTransport
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import http
from holdfast.sim.api.serving.routing import User
from holdfast.sim.aws.service import Caller
from holdfast.sim.cluster import Cluster, pods
from holdfast.sim.cluster.kinds import Deployment, Pod
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup
from holdfast.sim.ec2.service import Ec2

AT_ONCE = Timings(boot_s=0.05, ready_s=0.05, devices_s=0.05, pod_start_s=0.05, poll_s=0.05)


def test_a_deployment_runs_within_seconds_of_real_time() -> None:
    async def main() -> None:
        clock, ids = RealClock(), RealIds()
        server = ApiServer(clock=clock, ids=ids, tokens={"secret": User("admin")})
        plain = replace(setup.plain(), timings=setup.Timings(boot_s=0))
        ec2 = Ec2(clock=clock, ids=ids, setup=plain)
        async with http.serving(server) as address:
            user = credentials.Fixed(Credential("secret"))
            transport = HttpTransport(Connection(Server(address.url, address.authority.decode()), user))
            kube = Client(transport=transport, clock=clock, ids=ids, settings=ClientSettings())
            cluster = Cluster(api=kube, cloud=ec2, clock=clock, ids=ids, timings=AT_ONCE)
            try:
                await cluster.start()
                text = userdata.text("AL2023", Bootstrap(cluster=cluster_environment.JOINS, max_pods=29))
                wanted = {
                    "ImageId": plain.images[0].id,
                    "InstanceType": "m5.large",
                    "MinCount": 1,
                    "MaxCount": 1,
                    "UserData": base64.b64encode(text.encode()).decode(),
                }
                ec2.call("RunInstances", wanted, Caller(setup.ACCOUNT, user_agent="test"))
                spec = cluster_environment.workload("web", replicas=2)["spec"]
                await kube.create(Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
                async with asyncio.timeout(60):
                    while sum(pods.ready(pod) for pod in (await kube.list(Pod)).items) < 2:
                        await clock.sleep(0.2)
                        cluster.check()
                await cluster.stop()
            finally:
                await transport.aclose()

    asyncio.run(main())
