"""Names that AWS objects have on the wire: labels, annotations, tags and finalizers of Karpenter's AWS side.

They are spelt exactly as in Karpenter. They are with the wire types because the CRDs, the AWS provider and the
simulated EC2 all import them, and `model`, `core` and `controllers` must not.
"""

from typing import Final

GROUP: Final = "karpenter.k8s.aws"
HOLDFAST_GROUP: Final = "holdfast.dev"  # of the node classes that Karpenter ignores

# --- Labels of reservations -------------------------------------------------------------------------
CAPACITY_RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
CAPACITY_RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"
CAPACITY_RESERVATION_INTERRUPTIBLE: Final = "karpenter.k8s.aws/capacity-reservation-interruptible"
CAPACITY_RESERVATION_SETTING: Final = "karpenter.k8s.aws/capacity-reservation-setting"  # direct mode only
RESERVED_CAPACITY_LABELS: Final = (
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
)

# --- Labels of instances ----------------------------------------------------------------------------
ZONE_ID: Final = "topology.k8s.aws/zone-id"
EC2NODECLASS: Final = "karpenter.k8s.aws/ec2nodeclass"  # also a tag
HOLDFAST_EC2NODECLASS: Final = "holdfast.dev/ec2nodeclass"  # the same for a class of HOLDFAST_GROUP
INSTANCE_TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
INSTANCE_ENCRYPTION_IN_TRANSIT: Final = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
INSTANCE_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
INSTANCE_HYPERVISOR: Final = "karpenter.k8s.aws/instance-hypervisor"
INSTANCE_FAMILY: Final = "karpenter.k8s.aws/instance-family"
INSTANCE_GENERATION: Final = "karpenter.k8s.aws/instance-generation"
INSTANCE_LOCAL_NVME: Final = "karpenter.k8s.aws/instance-local-nvme"
INSTANCE_SIZE: Final = "karpenter.k8s.aws/instance-size"
INSTANCE_CPU: Final = "karpenter.k8s.aws/instance-cpu"
INSTANCE_CPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-cpu-manufacturer"
INSTANCE_CPU_CLOCK: Final = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
INSTANCE_MEMORY: Final = "karpenter.k8s.aws/instance-memory"
INSTANCE_EBS_BANDWIDTH: Final = "karpenter.k8s.aws/instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH: Final = "karpenter.k8s.aws/instance-network-bandwidth"
INSTANCE_GPU_NAME: Final = "karpenter.k8s.aws/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT: Final = "karpenter.k8s.aws/instance-gpu-count"
INSTANCE_GPU_MEMORY: Final = "karpenter.k8s.aws/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME: Final = "karpenter.k8s.aws/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER: Final = "karpenter.k8s.aws/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT: Final = "karpenter.k8s.aws/instance-accelerator-count"
INSTANCE_CAPABILITY_FLEX: Final = "karpenter.k8s.aws/instance-capability-flex"
PLACEMENT_GROUP_ID: Final = "karpenter.k8s.aws/placement-group-id"
PLACEMENT_GROUP_PARTITION: Final = "karpenter.k8s.aws/placement-group-partition"

# The labels in AWS's domain that a NodePool or a pod may select on.
SELECTABLE_LABELS: Final = (
    INSTANCE_TENANCY,
    *RESERVED_CAPACITY_LABELS,
    EC2NODECLASS,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_CATEGORY,
    INSTANCE_HYPERVISOR,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_LOCAL_NVME,
    INSTANCE_SIZE,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_CLOCK,
    INSTANCE_MEMORY,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_GPU_NAME,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MEMORY,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_CAPABILITY_FLEX,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
)

# --- Annotations and finalizer ----------------------------------------------------------------------
EC2NODECLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
EC2NODECLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
TAGGED: Final = "karpenter.k8s.aws/tagged"
INSTANCE_PROFILE_NAME: Final = "karpenter.k8s.aws/instance-profile-name"
CLUSTER_NAME_TAGGED: Final = "compatibility.karpenter.k8s.aws/cluster-name-tagged"
TERMINATION_FINALIZER: Final = "karpenter.k8s.aws/termination"

# --- Tags on AWS objects ----------------------------------------------------------------------------
CLUSTER_TAG_PREFIX: Final = "kubernetes.io/cluster/"
CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
NODECLAIM_TAG: Final = "karpenter.sh/nodeclaim"
NAME_TAG: Final = "Name"
# On launch templates and instance profiles of Holdfast, with the cluster's name: Karpenter's have the other tags as
# well.
HOLDFAST_TAG: Final = "holdfast.dev/cluster"
LAUNCH_TEMPLATE_TAG: Final = "aws:ec2launchtemplate:id"  # EC2 sets it on instances
