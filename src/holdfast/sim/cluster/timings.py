"""How long things take in a simulated cluster, and the annotations by which a pod changes it."""

from dataclasses import dataclass
from typing import Final

# Annotations of a pod that stand for what its containers would do; each is a number of seconds.
READY_AFTER: Final = "sim.holdfast.dev/ready-after"  # from running to ready
RUNS_FOR: Final = "sim.holdfast.dev/runs-for"  # then it has succeeded
STOPS_AFTER: Final = "sim.holdfast.dev/stops-after"  # from its deletion; never longer than its grace


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Of a node, from its instance being `running`; of a pod, from its binding. A scenario sets what it is about."""

    boot_s: float = 25  # until the kubelet registers its node
    ready_s: float = 10  # from there until the node is ready
    devices_s: float = 15  # from there until device plugins and agents have spoken
    startup_taints: tuple[str, ...] = ("ebs.csi.aws.com/agent-not-ready",)  # which agents then take off
    pod_start_s: float = 2
    pod_stop_s: float = 1
    job_s: float = 60  # how long a pod runs that is meant to end, if it does not say
    heartbeat_s: float = 10
    status_s: float = 300  # between reports of a node that has nothing new to say
    grace_s: float = 50  # a node that says nothing for so long is not reachable
    poll_s: float = 1  # how often EC2 is looked at
    orphan_s: float = 40  # how long a pod outlives its node


# For long runs: heartbeats are most of what happens in a quiet cluster.
SPARSE: Final = Timings(heartbeat_s=60, grace_s=180, poll_s=5)
