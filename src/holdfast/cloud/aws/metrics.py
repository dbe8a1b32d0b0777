"""The metrics of this package; `app` declares them."""

from typing import Final

from holdfast.cloud.aws.catalog import offering_gauges
from holdfast.cloud.aws.client import batching, calls, measured_calls, sources
from holdfast.cloud.aws.instances import provider, queue
from holdfast.cloud.aws.launch import bookkeeping, template_store
from holdfast.cloud.aws.reservations import reader
from holdfast.runtime.metrics import Metric

_OFFERING: Final = offering_gauges.Pool._fields
_RESERVATION: Final = ("reservation", "instance_type", "zone")

METRICS: Final = (
    Metric(calls.CALLS_TOTAL, "counter", "Calls of AWS.", ("service", "operation", "outcome")),
    Metric(
        calls.CALL_SECONDS,
        "histogram",
        "Time a call of AWS took.",
        ("service", "operation"),
        (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    ),
    Metric(
        batching.BATCH_SIZE,
        "histogram",
        "Requests that shared a call.",
        ("batcher",),
        (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000),
    ),
    Metric(batching.BATCH_TIME, "histogram", "Time a call waited for more requests.", ("batcher",)),
    Metric(offering_gauges.AVAILABLE, "gauge", "Whether an offering can be launched.", _OFFERING),
    Metric(offering_gauges.PRICE, "gauge", "What an offering costs an hour, in USD.", _OFFERING),
    Metric(offering_gauges.CORES, "gauge", "vCPUs of an instance type.", ("instance_type",)),
    Metric(offering_gauges.MEMORY, "gauge", "Memory of an instance type.", ("instance_type",)),
    Metric(
        bookkeeping.LAUNCH_FAILURES,
        "counter",
        "Launches that EC2 refused.",
        ("zone", "zone_id", "capacity_type", "reason"),
    ),
    Metric(bookkeeping.LAUNCHES, "counter", "Instances launched into a reservation.", ("reservation",)),
    Metric(
        bookkeeping.REFUSALS,
        "counter",
        "Launches into a reservation that EC2 refused.",
        ("reservation", "reason"),
    ),
    *measured_calls.METRICS,
    Metric(provider.TERMINATION_FAILURES, "counter", "Instances that EC2 did not terminate when asked."),
    Metric(
        template_store.USER_DATA_BYTES,
        "gauge",
        "Size of the user data of a launch template of the class; EC2 takes 16384.",
        ("ec2nodeclass",),
    ),
    Metric(bookkeeping.UNKNOWN_CODES, "counter", "Unknown error codes.", ("code",)),
    Metric(sources.REFRESHES_FAILED, "counter", "Readings that failed.", ("source", "error")),
    Metric(sources.REFRESH_AGE, "gauge", "Age of what was read.", ("source",)),
    Metric(reader.SLOTS, "gauge", "Slots of a reservation.", _RESERVATION),
    Metric(reader.FREE_SLOTS, "gauge", "Free slots of a reservation.", _RESERVATION),
    Metric(queue.RECEIVED, "counter", "Messages of the interruption queue.", ("message_type",)),
    Metric(queue.DELETED, "counter", "Messages that were dealt with."),
    Metric(queue.AGE, "histogram", "Age of messages when they were read."),
    Metric(queue.MALFORMED, "counter", "Malformed messages."),
)
