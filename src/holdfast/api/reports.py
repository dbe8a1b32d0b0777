"""The documents of the JSON API: what the leader reports about pods, nodes and reservations, and why.

`explain` writes them, the command line and the page read them. Times are seconds since the epoch, money is US dollars.
Lists are bounded; a `more` or `total` counts what is left out. They have nothing that the objects of the cluster do not
have: no secret, no user data, no environment of a container.
"""

from holdfast.api.meta import Wire


class SlotUse(Wire, frozen=True, kw_only=True):
    """One slot that this cluster uses."""

    node: str = ""  # empty before the node joins
    node_claim: str = ""  # empty: the instance has no NodeClaim
    state: str  # running, launching or releasing
    since: int | None = None  # of its launch


class ReservationRow(Wire, frozen=True, kw_only=True):
    id: str
    kind: str  # default or capacity-block, as EC2 reports it, or interruptible
    instance_type: str
    zone: str
    owner: str  # the account
    state: str  # EC2's word
    window: str  # upcoming, open, draining, reclaiming or ended
    total: int
    here: int = 0  # used by instances of this cluster that are not terminating
    elsewhere: int = 0  # used by other clusters and accounts
    held: int = 0  # by NodeClaims whose instances EC2's count does not include yet
    releasing: int = (
        0  # the instance is terminating, or terminated so recently that EC2 counts the slot as used
    )
    free: int = 0  # that a plan may use
    idle: int = 0  # paid for, and neither used nor held
    idle_usd_per_hour: float | None = 0.0  # None: the price is unknown
    starts: int | None = None
    drains: int | None = None  # nodes are drained from then
    reclaims: int | None = None  # EC2 terminates instances from then
    ends: int | None = None
    node_classes: tuple[str, ...] = ()  # that select it; empty: none does


class ReservationsReport(Wire, frozen=True, kw_only=True):
    at: int
    counted_at: int  # when EC2's counts were read; 0: never
    items: tuple[ReservationRow, ...] = ()
    idle_usd_per_hour: float = 0.0  # sum of the known ones
    without_price: int = 0  # reservations with idle slots whose price is unknown
    idle_usd_day: float = 0.0  # of the last 24 hours, or since `idle_since`
    idle_since: int = 0
    computed: str = ""  # set if no leader answered: how this was computed


class SlotsReport(Wire, frozen=True, kw_only=True):
    """Who uses the slots of some reservations."""

    at: int
    items: dict[str, tuple[SlotUse, ...]] = {}  # by reservation


class NodeRow(Wire, frozen=True, kw_only=True):
    name: str  # of the Node, or of the NodeClaim before the Node exists
    node_claim: str = ""  # empty: Holdfast did not launch it
    node_pool: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    reservation: str = ""
    state: str  # launching, starting, ready, draining
    pods: int = 0
    usd_per_hour: float | None = None  # 0 in a slot; None: unknown
    created: int | None = None


class NodesReport(Wire, frozen=True, kw_only=True):
    at: int
    total: int  # that match the query
    items: tuple[NodeRow, ...] = ()


class NodeGroup(Wire, frozen=True, kw_only=True):
    """Nodes of Holdfast with the same capacity type, zone and NodePool."""

    capacity_type: str
    zone: str
    node_pool: str
    nodes: int
    usd_per_hour: float  # of those whose price is known; 0 in slots


class PendingGroup(Wire, frozen=True, kw_only=True):
    """Pending pods with the same reason."""

    code: str
    text: str
    pods: int
    examples: tuple[str, ...] = ()  # namespace/name
    oldest: int | None = None


class PendingReport(Wire, frozen=True, kw_only=True):
    at: int
    total: int
    groups: tuple[PendingGroup, ...] = ()


class GangRow(Wire, frozen=True, kw_only=True):
    """A gang that waits for nodes or books them."""

    kind: str  # podgroup, provisioningrequest, jobset or leaderworkerset
    namespace: str
    name: str
    state: str  # waiting, launching or booked
    since: int | None = None
    pods: int = 0  # that exist; of a request, all that it asks for
    needed: int = 0  # that start together; 0: unknown
    located: int = 0  # with a node, or with capacity on a node
    text: str = ""  # why it waits; of a booking, its message


class GangsReport(Wire, frozen=True, kw_only=True):
    at: int
    total: int
    items: tuple[GangRow, ...] = ()  # the first one is placed first


class DecisionRow(Wire, frozen=True, kw_only=True):
    id: int
    at: int
    type: str  # launch, launched, launch-failed, disruption, removal, interruption
    kind: str  # of the object
    namespace: str = ""
    name: str
    text: str
    reasons: tuple[str, ...] = ()


class DecisionsReport(Wire, frozen=True, kw_only=True):
    at: int
    since: int  # nothing older is kept
    items: tuple[DecisionRow, ...] = ()  # newest first


class PlannedNode(Wire, frozen=True, kw_only=True):
    """A NodeClaim that is being launched, and the pods that it is for."""

    node_claim: str
    pods: tuple[str, ...] = ()  # namespace/name of some of them
    pod_count: int = 0
    text: str  # the offering


class PlanReport(Wire, frozen=True, kw_only=True):
    """The last plan, and what is being launched now."""

    at: int
    planned_at: int | None = None  # None: no plan was made yet
    usd_per_hour: float = 0.0  # of the nodes that the last plan launches
    first_fit_usd_per_hour: float = 0.0  # what first fit alone would cost
    launching: tuple[PlannedNode, ...] = ()
    more_launching: int = 0
    nominated: int = 0  # pods that wait for a node


class Costs(Wire, frozen=True, kw_only=True):
    """Dollars an hour."""

    on_demand: float = 0.0
    spot: float = 0.0
    reserved: float = 0.0  # list price of the slots in use here
    idle: float = 0.0  # list price of idle slots
    unknown_nodes: int = 0  # nodes whose price is unknown


class LastHour(Wire, frozen=True, kw_only=True):
    launches: int = 0
    launch_failures: int = 0
    disruptions: int = 0
    removals: int = 0
    interruptions: int = 0


class FailingController(Wire, frozen=True, kw_only=True):
    controller: str
    keys: tuple[str, ...] = ()  # some of those whose last reconcile failed
    key_count: int = 0
    problem: str = ""  # why it makes no progress


class StatusReport(Wire, frozen=True, kw_only=True):
    at: int
    version: str
    cluster: str
    kubernetes_version: str = ""
    leader: str = ""
    leading_since: int | None = None
    problem: str = ""  # why the replica is not ready
    nodes: int = 0  # of the cluster, also those that Holdfast did not launch
    launching: int = 0
    draining: int = 0
    groups: tuple[NodeGroup, ...] = ()
    pods: int = 0
    pending: int = 0
    pending_groups: tuple[PendingGroup, ...] = ()  # the largest
    costs: Costs = Costs()
    last_hour: LastHour = LastHour()
    failing: tuple[FailingController, ...] = ()
    planned_at: int | None = None
    gangs: int = 0  # gangs that wait for nodes or book them
    reservations: int = 0
    slots: int = 0
    slots_used: int = 0  # here
    slots_free: int = 0
    computed: str = ""  # set if no leader answered: how this was computed


class SearchHit(Wire, frozen=True, kw_only=True):
    kind: str  # pod, node, nodeclaim, nodepool, reservation, job, jobset, leaderworkerset, podgroup or provisioningrequest
    namespace: str = ""
    name: str
    text: str = ""


class SearchReport(Wire, frozen=True, kw_only=True):
    at: int
    items: tuple[SearchHit, ...] = ()
    more: bool = False


class Considered(Wire, frozen=True, kw_only=True):
    """What was considered, and why it was not used."""

    subject: str
    text: str


class Fact(Wire, frozen=True, kw_only=True):
    name: str
    value: str


class Explanation(Wire, frozen=True, kw_only=True):
    """The answer to `holdfast explain KIND NAME`."""

    at: int
    kind: str
    namespace: str = ""
    name: str
    what: str  # one sentence: what it is now
    since: int | None = None
    why: tuple[str, ...] = ()
    considered: tuple[Considered, ...] = ()
    changes: tuple[str, ...] = ()  # what would change it
    next: str = ""  # when it is looked at again
    facts: tuple[Fact, ...] = ()
    decisions: tuple[DecisionRow, ...] = ()  # newest first
    computed: str = ""  # set if no leader answered: how this was computed


class ErrorReport(Wire, frozen=True, kw_only=True):
    """The body of every response that is not a success."""

    error: str
