"""`holdfast sandbox` as a process: kubectl and botocore can use it, and it removes everything when it stops."""

import asyncio
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import BotoCoreError

from holdfast.app import sandbox as sandboxes
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.aws.service import Caller
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from sandbox_process import EXAMPLE, WITHIN_S, running, start

AL2023 = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"


def stderr_of_failure(folder: Path, *arguments: str) -> list[str]:
    """The lines on standard error."""
    _, stderr = (process := start(folder, *arguments)).communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert list((folder / "tmp").iterdir()) == []
    return stderr.splitlines()


def listens(url: str) -> bool:
    address = urlsplit(url)
    with socket.socket() as connection:
        return connection.connect_ex((address.hostname or "", address.port or 0)) == 0


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_sandbox_and_removes_its_files(tmp_path: Path, number: int) -> None:
    with running(tmp_path) as sandbox:
        urls = [sandbox.environ["CLUSTER_ENDPOINT"], sandbox.environ["AWS_ENDPOINT_URL"]]
        assert [listens(url) for url in urls] == [True, True]
        assert sandbox.env_file.with_name("kubeconfig").stat().st_mode & 0o077 == 0
        assert sandbox.stop(number) == ""
        assert sandbox.process.returncode == 0
    assert [listens(url) for url in urls] == [False, False]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_kubectl_and_botocore_find_the_objects_of_a_scenario(tmp_path: Path) -> None:
    with running(tmp_path, str(EXAMPLE)) as sandbox:
        listed = sandbox.kubectl("get", "nodepools,ec2nodeclasses,deployments", "-o", "name").split()
        assert listed == [
            "nodepool.karpenter.sh/two-slots",
            "ec2nodeclass.karpenter.k8s.aws/two-slots",
            "deployment.apps/shop",
        ]
        until = time.monotonic() + WITHIN_S
        while sandbox.kubectl("get", "pods", "-o", "name").count("pod/shop") < 3:
            assert time.monotonic() < until
            time.sleep(0.2)
        (reservation,) = sandbox.client("ec2").describe_capacity_reservations()["CapacityReservations"]
        assert (reservation["TotalInstanceCount"], reservation["AvailableInstanceCount"]) == (3, 2)
        identity = sandbox.client("sts").get_caller_identity()
        assert identity["Account"] == "111122223333"
        endpoint = sandbox.client("eks").describe_cluster(name="holdfast")["cluster"]["endpoint"]
        assert endpoint == sandbox.environ["CLUSTER_ENDPOINT"]
        assert sandbox.stop() == ""


def test_botocore_creates_and_cancels_reservations_and_instances(tmp_path: Path) -> None:
    with running(tmp_path) as sandbox:
        ec2, ssm = sandbox.client("ec2"), sandbox.client("ssm")
        made = ec2.create_capacity_reservation(
            InstanceType="m5.large", InstancePlatform="Linux/UNIX", AvailabilityZone="us-west-2a", InstanceCount=2
        )["CapacityReservation"]["CapacityReservationId"]  # fmt: skip
        wanted = {"ImageId": ssm.get_parameter(Name=AL2023)["Parameter"]["Value"]}
        (instance,) = ec2.run_instances(
            **wanted, InstanceType="m5.large", MinCount=1, MaxCount=1, Placement={"AvailabilityZone": "us-west-2a"}
        )["Instances"]  # fmt: skip
        ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=wanted)
        fleet = ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
                    "Overrides": [{"InstanceType": "m5.large", "AvailabilityZone": "us-west-2a"}],
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        )
        assert (len(fleet["Instances"]), fleet["Errors"]) == (1, [])
        (found,) = ec2.describe_capacity_reservations()["CapacityReservations"]
        assert (found["CapacityReservationId"], found["AvailableInstanceCount"]) == (made, 0)
        (terminating,) = ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])["TerminatingInstances"]
        assert terminating["CurrentState"]["Name"] == "shutting-down"
        assert ec2.cancel_capacity_reservation(CapacityReservationId=made)["Return"]
        sandbox.stop()


def test_a_long_poll_does_not_delay_the_stop(tmp_path: Path) -> None:
    with running(tmp_path) as sandbox:
        queue = sandbox.client("sqs")
        url = queue.get_queue_url(QueueName="holdfast")["QueueUrl"]
        waiting = threading.Thread(target=long_poll, args=(queue, url))
        waiting.start()
        time.sleep(0.5)
        began = time.monotonic()
        sandbox.stop()
        assert time.monotonic() - began < 15
        waiting.join()


def long_poll(queue: Any, url: str) -> None:
    with pytest.raises(BotoCoreError):
        queue.receive_message(QueueUrl=url, WaitTimeSeconds=20)


def test_the_folder_of_a_flag_is_used_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    with running(tmp_path, "--folder", str(folder)) as sandbox:
        assert sandbox.environ["KUBECONFIG"] == str(folder / "kubeconfig")
        sandbox.stop()
    assert not folder.exists()
    folder.mkdir()
    (folder / "precious").touch()
    assert stderr_of_failure(tmp_path, "--folder", str(folder)) == [f"{folder} is not empty"]
    assert (folder / "precious").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: World", "{file}:1: World: .apiVersion: Required value"),
        (
            "apiVersion: holdfast.dev/v1alpha1\nkind: World\nmetadata: {name: x}\nspec: {region: mars-1}",
            "{file}:4: World/x: .spec.region: mars-1 is not a region that is shipped (eu-west-1, us-east-1, us-west-2)",
        ),
        (
            "apiVersion: holdfast.dev/v1alpha1\nkind: World\nmetadata: {name: x}\nspec:\n  start: 2026-11-15T10:00:00Z",
            "{file}:5: World/x: .spec.start: time is real in a sandbox: leave it out",
        ),
        (
            "apiVersion: v1\nkind: Pood\nmetadata: {name: x}",
            "{file}:1: Pood/x: the API server has no kind Pood of v1",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndate: {}",
            (
                '{file}:1: ConfigMap/x: POST /api/v1/namespaces/default/configmaps: ConfigMap in version "v1" '
                'cannot be handled as a ConfigMap: strict decoding error: unknown field "date"'
            ),
        ),
    ],
)
def test_error_in_a_file_is_reported_and_no_files_remain(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    assert stderr_of_failure(tmp_path, str(file)) == [message.format(file=file)]


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (line,) = stderr_of_failure(tmp_path, "--aws-port", str(port))
    assert str(port) in line
    assert "address already in use" in line


def test_missing_control_plane_programs_are_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        (line,) = stderr_of_failure(tmp_path, "--control-plane", "real")
    assert line.startswith("etcd is neither in KUBEBUILDER_ASSETS nor on PATH")


def test_check_raises_an_inconsistency_of_the_simulation(tmp_path: Path) -> None:
    reserved = Reserved(id="cr-0", instance_type="m5.large", zone_id="usw2-az2", total=1)

    async def main() -> None:
        plan = sandboxes.Plan(folder=tmp_path, setup=CloudSetup(reservations=(reserved,)))
        async with sandboxes.running(plan, clock=RealClock(), ids=RealIds()) as sandbox:
            sandbox.check()
            ec2 = sandbox.cloud.ec2.region
            ec2.put_reservation(ec2.reservations["cr-0"], available=7)
            with pytest.raises(AssertionError):
                sandbox.cloud.endpoint.call("ec2", "DescribeInstances", {}, Caller("111122223333", ""))
            sandbox.check()

    with pytest.raises(AssertionError, match="says 7 are available"):
        asyncio.run(main())
