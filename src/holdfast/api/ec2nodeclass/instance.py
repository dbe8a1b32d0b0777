"""The parts of an EC2NodeClass about the instance: volumes, network, metadata service, processor."""

from typing import Annotated, Final

from msgspec import field

from holdfast.api import patterns
from holdfast.api.meta import Wire
from holdfast.api.schema import Rule, about

_ENABLED_OR_NOT: Final = ("enabled", "disabled")


class BlockDevice(Wire, frozen=True, kw_only=True):
    delete_on_termination: Annotated[
        bool | None, about("Whether the volume is deleted with the instance.")
    ] = None
    encrypted: Annotated[bool | None, about("Whether the volume is encrypted.")] = None
    iops: Annotated[
        int | None, about("I/O operations per second, where the volume type has them.", format="int64")
    ] = None
    kms_key_id: Annotated[str | None, about("The KMS key the volume is encrypted with.")] = field(
        default=None, name="kmsKeyID"
    )
    snapshot_id: Annotated[str | None, about("The snapshot the volume is made from.")] = field(
        default=None, name="snapshotID"
    )
    throughput: Annotated[int | None, about("MiB per second, for gp3.", format="int64")] = None
    volume_initialization_rate: Annotated[
        int | None,
        about(
            "MiB per second at which blocks come from the snapshot.", minimum=100, maximum=300, format="int32"
        ),
    ] = None
    volume_size: Annotated[
        str | None, about("The size, in Gi, G, Ti or T.", pattern=patterns.VOLUME_SIZE)
    ] = None
    volume_type: Annotated[
        str | None,
        about("The kind of EBS volume.", enum=("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")),
    ] = None


class BlockDeviceMapping(Wire, frozen=True, kw_only=True):
    device_name: Annotated[str | None, about("The device the volume is attached as.")] = None
    ebs: Annotated[
        BlockDevice | None,
        about(
            "The EBS volume.",
            rules=(
                Rule(
                    "has(self.snapshotID) || has(self.volumeSize)", "a volume needs snapshotID or volumeSize"
                ),
                Rule(
                    "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
                    "volumeInitializationRate needs the snapshotID that it is about",
                ),
            ),
        ),
    ] = None
    root_volume: Annotated[
        bool | None, about("Whether this is the volume that ephemeral storage is counted from.")
    ] = None


class NetworkInterface(Wire, frozen=True, kw_only=True):
    network_card_index: Annotated[int, about("The network card.", minimum=0, format="int32")]
    device_index: Annotated[int, about("The device on that card.", minimum=0, format="int32")]
    interface_type: Annotated[
        str, about("An ordinary interface, or one for EFA alone.", enum=("interface", "efa-only"))
    ]


class MetadataOptions(Wire, frozen=True):
    http_endpoint: Annotated[
        str, about("Whether instances see the metadata service.", enum=_ENABLED_OR_NOT)
    ] = "enabled"
    http_protocol_ipv6: Annotated[
        str, about("Whether the metadata service answers over IPv6.", enum=_ENABLED_OR_NOT)
    ] = field(default="disabled", name="httpProtocolIPv6")
    http_put_response_hop_limit: Annotated[
        int,
        about(
            "How many hops a metadata answer travels; containers need 2.",
            minimum=1,
            maximum=64,
            format="int64",
        ),
    ] = 1
    http_tokens: Annotated[
        str, about("Whether session tokens are required.", enum=("required", "optional"))
    ] = "required"


class ConnectionTracking(Wire, frozen=True, kw_only=True):
    tcp_established_timeout: Annotated[
        int | None,
        about("Seconds an idle TCP connection is tracked.", minimum=60, maximum=432000, format="int32"),
    ] = None
    udp_stream_timeout: Annotated[
        int | None, about("Seconds an idle UDP stream is tracked.", minimum=60, maximum=180, format="int32")
    ] = None
    udp_timeout: Annotated[
        int | None,
        about("Seconds an idle one-way UDP flow is tracked.", minimum=30, maximum=60, format="int32"),
    ] = None


class CPUOptions(Wire, frozen=True):
    nested_virtualization: Annotated[
        str | None, about("Whether instances support nested virtualization.", enum=_ENABLED_OR_NOT)
    ] = None
