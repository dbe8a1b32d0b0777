"""Every metric of the program, and the names of those that the program itself sets."""

from typing import Final

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws import metrics as aws_metrics
from holdfast.cloud.aws.catalog import labels as aws_labels
from holdfast.controllers import claim_end, claim_writing, instance_status
from holdfast.controllers.disruption import queue as disruption_queue
from holdfast.controllers.disruption import reporter as disruption_reporter
from holdfast.controllers.metrics import exporters
from holdfast.controllers.metrics.conditions import ClassNames
from holdfast.controllers.node import termination as node_termination
from holdfast.controllers.nodeclaim import reboot, registration
from holdfast.controllers.nodeclaim import termination as claim_termination
from holdfast.controllers.nodepool import counter
from holdfast.controllers.provisioning import provisioner, requests
from holdfast.runtime.metrics import Metric

BUILD: Final = "karpenter_build_info"
SYNCED: Final = "karpenter_cluster_state_synced"
UNSYNCED: Final = "karpenter_cluster_state_unsynced_time_seconds"
NODES: Final = "karpenter_cluster_state_node_count"
CLOCK: Final = "holdfast_clock_offset_seconds"
CLOCK_REPORTED: Final = "holdfast_clock_reported_offset_seconds"
CLASSES: Final = ClassNames("ec2nodeclass", EC2NodeClass.label)
METRICS: Final = (
    Metric(
        BUILD,
        "gauge",
        "1, with the version of this program; Karpenter's other labels are empty.",
        ("version", "goversion", "goarch", "commit"),
    ),
    Metric(SYNCED, "gauge", "1 when every watch cache is filled."),
    Metric(UNSYNCED, "gauge", "Seconds since the start while a watch cache is not filled, else 0."),
    Metric(NODES, "gauge", "Nodes in the cluster, also those that Holdfast did not launch."),
    Metric(CLOCK, "gauge", "Seconds a server's clock is ahead of this process's, as applied.", ("server",)),
    Metric(CLOCK_REPORTED, "gauge", "The same offset by the server's last response.", ("server",)),
    *provisioner.METRICS,
    *requests.METRICS,
    *claim_end.METRICS,
    *claim_writing.METRICS,
    *instance_status.METRICS,
    *disruption_queue.METRICS,
    *disruption_reporter.METRICS,
    *registration.METRICS,
    *claim_termination.METRICS,
    *reboot.METRICS,
    *node_termination.METRICS,
    *counter.METRICS,
    *exporters.metrics(aws_labels.WELL_KNOWN_LABELS, CLASSES),
    *aws_metrics.METRICS,
)
