"""The durations of a simulated cluster, and the pod annotations that override them."""

from dataclasses import dataclass
from typing import Final

# Annotations of a pod that simulate its containers, in seconds.
READY_AFTER: Final = "sim.holdfast.dev/ready-after"  # from running to ready
RUNS_FOR: Final = "sim.holdfast.dev/runs-for"  # then it succeeds
STOPS_AFTER: Final = "sim.holdfast.dev/stops-after"  # from its deletion; at most its grace period


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """For a node, from the start of its instance; for a pod, from its binding. A scenario sets the fields that it
    needs."""

    boot_s: float = 25  # until the kubelet registers its node
    ready_s: float = 10  # from there until the node is ready
    devices_s: float = 15  # from there until device plugins and agents run
    startup_taints: tuple[str, ...] = ("ebs.csi.aws.com/agent-not-ready",)  # agents remove them then
    pod_start_s: float = 2
    pod_stop_s: float = 1
    job_s: float = 60  # default duration of a Job's pod
    heartbeat_s: float = 10
    status_s: float = 300  # between two status reports of an unchanged node
    grace_s: float = 50  # a node without a heartbeat for so long is unreachable
    heartbeats: bool = (
        True  # False: no Lease and no unchanged status is written; a kubelet that ends is noticed anyway
    )
    poll_s: float = 1  # between two reads of EC2
    orphan_s: float = 40  # how long a pod exists without its node


# For long runs: most events of an idle cluster are heartbeats.
SPARSE: Final = Timings(heartbeat_s=60, grace_s=180, poll_s=5)
