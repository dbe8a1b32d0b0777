"""What a launch does very often leaves no cycles of references, which stay in memory until a rare garbage collection."""

import base64
import contextlib

from botocore.exceptions import ClientError

import garbage
import sim_aws
from holdfast.cloud.aws.launch import userdata
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller
from holdfast.sim.cluster import userdata as kubelet_userdata

CLUSTER = Cluster(
    name="blue",
    endpoint="https://example",
    ca_bundle="Y2E=",
    service_cidr="10.96.0.0/16",
    dns_ip="10.96.0.10",
)


def user_data() -> str:
    return userdata.text("AL2023", Bootstrap(cluster=CLUSTER, max_pods=58, labels={"team": "ml"}, taints=()))


def test_user_data_is_written_without_cycles() -> None:
    assert garbage.left_by(user_data) == 0


def test_user_data_is_read_without_cycles() -> None:
    encoded = base64.b64encode(user_data().encode()).decode()
    assert garbage.left_by(lambda: kubelet_userdata.read(encoded)) == 0


def test_an_error_of_the_simulated_aws_leaves_no_cycles() -> None:
    class Ec2:
        def call(self, operation: str, _params: object, _caller: Caller) -> dict[str, object]:
            raise ApiError("InvalidLaunchTemplateName.NotFoundException", operation)

    with sim_aws.clients("before_call", sim_aws.endpoint({"ec2": Ec2()})) as aws:

        def refused() -> None:
            with contextlib.suppress(ClientError):
                aws["ec2"].describe_launch_templates()

        assert garbage.left_by(refused) == 0
