"""All numbers of the duel: the reservations, the NodePools, the workloads and the times of the story.

Both programs get the same ones. Times are seconds after the story begins, for a story of `SECONDS`; `--seconds` stretches
all of them. Neither program has settings beside its defaults. NodePools have the defaults of the CRD, except for the
budget: with one node at a time, which is the default here, neither program replaces all drifted nodes in time.
"""

from typing import Any, Final

import builders
from peers import arena

Json = dict[str, Any]

PROGRAMS: Final = ("karpenter", "holdfast")
RUNS: Final = 3
SECONDS: Final = 310
SEED: Final = 1  # of the ids that the simulated EC2 and the simulated kubelets draw
SAMPLE_S: Final = 1.0
SETTLED_S: Final = (
    35  # kube-controller-manager and kube-apiserver start informers of new CRDs for half a minute
)

OWN, OTHER = "111122223333", "444455556666"
ZONE_A, ZONE_B, ZONE_C = "us-west-2a", "us-west-2b", "us-west-2c"
ZONE_C_ID, ZONE_A_ID = "usw2-az3", "usw2-az2"
TAG: Final = "duel"  # of reservations: which EC2NodeClass selects them
POOL_TAG: Final = "karpenter.sh/nodepool"  # of instances

# --- Reservations -------------------------------------------------------------------------------------

TARGETED: Final = "cr-00000000000000001"
SHARED: Final = "cr-00000000000000002"  # of the other account
OPEN: Final = "cr-00000000000000003"
SECOND: Final = "cr-00000000000000004"  # appears in the story
BLOCK: Final = "cr-00000000000000005"  # starts and ends in the story
APP_OF_RESERVATION: Final = {TARGETED: "web", SHARED: "web", SECOND: "web", OPEN: "api", BLOCK: "train"}

TARGETED_SLOTS: Final = 2
SHARED_SLOTS: Final = 5
OPEN_SLOTS: Final = 3
SECOND_SLOTS: Final = 3
BLOCK_SLOTS: Final = 2
TAKEN_SLOTS: Final = 2  # by the other account
PODS_PER_SLOT: Final = {"web": 1, "api": 2, "train": 1}
BLOCK_TYPE: Final = "p5.4xlarge"
BLOCK_LEAD_S: Final = 40 * 60  # both programs drain from then on; EC2 reclaims 10 minutes later

WORLD: Final[Json] = {
    "accounts": [{"id": OWN}, {"id": OTHER}],
    "throttled": True,
    "reservations": [
        {
            "id": TARGETED, "instanceType": "m5.large", "zone": ZONE_A, "total": TARGETED_SLOTS,
            "instanceMatchCriteria": "targeted", "tags": {TAG: "web"},
        },
        {
            "id": SHARED, "instanceType": "m5.large", "zone": ZONE_B, "total": SHARED_SLOTS,
            "instanceMatchCriteria": "targeted", "ownerID": OTHER, "sharedWith": [OWN],
        },
        {
            "id": OPEN, "instanceType": "m5.xlarge", "zone": ZONE_A, "total": OPEN_SLOTS,
            "instanceMatchCriteria": "open", "tags": {TAG: "api"},
        },
    ],
    "timings": {
        "boot": "4s", "shutdown": "5s", "slotRelease": "5s", "interruption": "120s",
        "join": "4s", "ready": "2s", "devices": "1s",
    },
}  # fmt: skip

# --- NodePools and classes ----------------------------------------------------------------------------

APPS: Final = ("web", "api", "batch", "train")
APP_OF_POOL: Final = {
    "web": "web", "api-first": "api", "api-rest": "api", "batch": "batch", "train": "train",
}  # fmt: skip
APP_LABEL: Final = "example.com/app"  # of nodes: which Deployment runs there
COLOUR_LABEL: Final = "example.com/colour"  # the drift
FIRST_POOL_CPU: Final = "8"  # the limit of the heavier NodePool: two m5.xlarge
FIRST_POOL_WEIGHT: Final = 50
BUDGET: Final = "3"  # nodes of a NodePool that may be disrupted at once
TYPES: Final = ("m5.large", "m5.xlarge", "c5.large", "c5.xlarge")


def node_classes() -> list[Json]:
    def tagged(app: str) -> Json:
        return {"tags": {TAG: app}}

    terms: dict[str, list[Json]] = {
        "web": [tagged("web"), {"id": SHARED}],  # tags of a shared reservation are not visible
        "api": [tagged("api")],
        "batch": [],
        "train": [tagged("train")],
    }
    return [arena.node_class(app, capacityReservationSelectorTerms=terms[app]) for app in APPS]


def node_pools() -> list[Json]:
    heavier = {"weight": FIRST_POOL_WEIGHT, "limits": {"cpu": FIRST_POOL_CPU}}
    return [
        _pool("web", ("reserved", "on-demand"), TYPES),
        _pool("api-first", ("reserved", "on-demand"), TYPES, **heavier),
        _pool("api-rest", ("reserved", "on-demand"), TYPES),
        _pool("batch", ("spot",), TYPES),
        _pool("train", ("reserved", "on-demand"), (BLOCK_TYPE, *TYPES)),
    ]


def _pool(name: str, capacity: tuple[str, ...], types: tuple[str, ...], **spec: Any) -> Json:
    app = APP_OF_POOL[name]
    requirements = [
        builders.requirement("karpenter.sh/capacity-type", "In", *capacity),
        builders.requirement("node.kubernetes.io/instance-type", "In", *types),
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": app}
    document = builders.nodepool_document(
        name, labels={APP_LABEL: app}, requirements=requirements, nodeClassRef=reference
    )
    document["spec"] |= {"disruption": {"budgets": [{"nodes": BUDGET}]}} | spec
    return document


# --- Workloads ----------------------------------------------------------------------------------------

REQUESTS: Final = {
    "web": {"cpu": "1500m", "memory": "1Gi"},
    "api": {"cpu": "1700m", "memory": "1Gi"},
    "batch": {"cpu": "1500m", "memory": "1Gi"},
    "train": {"cpu": "1500m", "memory": "1Gi"},
}


def deployment(app: str, replicas: int) -> Json:
    """The pods of train are on nodes of their own, so they need both slots of the block."""
    document = arena.deployment(app, replicas, REQUESTS[app], anywhere=True, apart=app == "train")
    document["spec"]["template"]["spec"]["nodeSelector"] = {APP_LABEL: app}
    return document
