"""The state of one packing run as arrays, shared between Python and the placement kernel.

`initial_state` builds it; `run` and the kernel read and write it. Everything is an index: classes, variants, nodes,
shapes, groups, domains, reservations. A *variant* is a class of equal pods at one level of relaxation. A *shape* is a
set of requirements on a node together with the offerings that satisfy them.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Counts = NDArray[np.int32]

# --- Results of a look-up ---------------------------------------------------------------------------
NO: Final = -1  # final: later placements only make it tighter
SOFT: Final = -2  # not now, but later placements may make it possible

EMPTY: Final = -2  # an unused row of `min_values_answers`
NEED: Final = -10  # at or below: Python must compute something; NEED minus the value is one of NEEDS_*

# --- The last domain tried at a level of `trail`, if there is none -------------------------------------
UNTRIED: Final = -1
UNLABELLED: Final = -2  # the node does not have the label, and does not need it

# --- Kinds of nodes ---------------------------------------------------------------------------------
EXISTING: Final = 0
UNRESERVED: Final = 1  # to launch on demand or on spot
RESERVED: Final = 2  # to launch into a reservation

# --- Stages: where the kernel looks for a node for a pod; `stages` holds their order -----------------
STAGE_EXISTING: Final = 0
STAGE_UNRESERVED: Final = 1  # unreserved nodes of this run
STAGE_RESERVED: Final = 2  # nodes of this run that hold a slot
STAGE_OPEN: Final = 3  # a new node, of the templates at these positions of `t_order`
STAGE_SPARE: Final = 4  # unreserved nodes of this run that the pod does not make more expensive

# --- Why the kernel returned ------------------------------------------------------------------------
DONE: Final = 0
NEEDS_TRANSITION: Final = 1  # shape, op
NEEDS_RESTRICTION: Final = 2  # shape, key, domain
NEEDS_LIMIT: Final = 3  # template
NEEDS_MIN_VALUES: Final = 4  # node, variant, shape
NEEDS_LARGER_ARRAYS: Final = 5  # there is no row for another node

# --- Registers --------------------------------------------------------------------------------------
(
    POSITION,  # in `order`
    NODES,  # number of nodes, existing ones included
    LOGGED,  # placements so far
    ARG_A,
    ARG_B,
    ARG_C,
    FREE_SLOTS,  # of all reservations
    RUN_VARIANT,  # the variant that the cursors belong to
    CURSOR_EXISTING,
    CURSOR_UNRESERVED,
    CURSOR_RESERVED,
    SEARCH,  # number of searches that had to start at the first node
    OLDEST_FIRST,  # nodes of this run are tried in the order they were opened, not fewest pods first
    SPARE_VARIANT,  # the variant whose size `spare` holds for, or -1
    REGISTERS,
) = range(15)

BLOCK: Final = 64  # positions that `spare_in_block` counts together


class PackingState(NamedTuple):
    """All arrays. Prefixes: c class, v variant, n node, s shape, g group, d domain, k key, r reservation."""

    reg: Ints
    order: Ints  # classes, in the order they are placed
    c_pending: Ints  # pods without a node
    c_first: Ints  # first variant; the next class's first ends it
    c_waits: Bytes  # whether its pods wait for a slot: they use only existing nodes and slots

    v_req: Ints  # [v, resource] the free capacity that a node must have for one pod
    v_load: Ints  # [v, resource] what the pod requests: less than `v_req` if the node must hold a whole group
    v_ops: Ints  # requirement sets to try, by v_op_first
    v_op_first: Ints
    v_steady: Bytes  # whether a node that rejected it always rejects it
    v_ports: Words  # [v, word] host ports that it uses
    v_clash: Words  # [v, word] host ports that conflict with them

    v_keys: Ints  # topology keys that a variant has constraints on, by v_key_first
    v_key_first: Ints

    # Volumes that several pods share count once a node: [i, (host group that counts it, resource column)]
    claim_first: Ints
    claims: Ints

    # Constraints by variant, each a range given by *_first.
    spread_first: Ints
    spread: Ints  # [i, (group, skew, counts itself, min domains, eligible set, key or -1 for hosts)]
    affinity_first: Ints
    affinity: Ints  # [i, (group, counts itself, eligible set, key or -1)] affinity
    anti_affinity_first: Ints
    anti_affinity: Ints  # [i, (group, key or -1)] anti-affinity, its own and that of other pods
    counting_first: Ints
    counting: Ints  # [i, (group, key or -1, every domain?, filter op or -1)] groups that count it

    eligible: Bytes  # [set, domain]
    k_first: Ints  # first domain of a key; the next key's first ends it
    trail: Ints  # [level, (shape, domain tried last)] scratch: one level for each key with constraints
    zone_key: Ints  # [0]: the key whose domains are zones, or -1
    d_free: Ints  # [domain] free slots in a zone

    host_count: Counts  # [group, node]
    host_total: Ints
    domain_count: Ints  # [group, domain]
    g_key: Ints  # the key of a domain group
    g_filter: Ints  # the filter op of a domain group, or -1
    uncertain: Counts  # [group, node] pods that count once it is certain in which domain the node is, and that it passes the filter

    n_shape: Ints
    n_load: Ints  # [n, resource]
    n_capacity: Ints  # [existing node, resource]
    n_pods: Ints
    n_reservation: Ints  # the reservation whose slot it holds, or -1
    n_ports: Words
    n_cheapest: Ints  # [n, resource] allocatable of the cheapest offering that holds its pods; no rows unless STAGE_SPARE is used
    spare: Bytes  # [position] whether the unreserved node listed there holds one more pod at no extra cost
    spare_in_block: Ints  # [block] how many there are in each block of positions
    n_template: Ints
    n_rejects: Ints  # the last variant that it rejected with NO

    listed: Ints  # [kind, position] nodes of this run by number of pods
    list_position: Ints  # [n] position in `listed`
    bucket: Ints  # [kind, pods] where the nodes with that many pods begin
    lengths: Ints  # [kind, (nodes, most pods)]

    s_domains: Bytes  # [s, domain]
    s_rows: Ints  # [s, (first, end)] in `frontier`
    s_max_allocatable: Ints  # [s, resource] the most that any row of the shape has
    frontier: Ints  # [row, resource] allocatable, without rows that another one exceeds in every resource
    s_priced: Ints  # [s, (first, end)] in `priced_allocatable`
    priced_allocatable: Ints  # [row, resource] of unreserved offerings, cheapest first
    s_slots: Ints  # [s, (first, end)] in `slot_reservation`
    slot_reservation: Ints
    slot_allocatable: Ints  # [row, resource]
    s_reserved: Bytes  # [s, reservation] whether nodes of the shape can use its slots
    s_max_capacity: Ints  # [s, limited resource] largest capacity
    s_min_values: Bytes
    s_excluded: Ints  # [s, (search, excluded in that search?)] scratch

    next_keys: Ints  # open addressing: shape and op -> shape
    next_values: Ints
    cut_keys: Ints  # open addressing: shape and domain -> shape
    cut_values: Ints

    min_values_answers: (
        Ints  # open addressing: [row, (node, its pods, variant, shape, answer)]; a node of EMPTY: unused
    )

    stages: Ints  # [i, (stage, first position in `t_order`, end)]
    t_order: Ints  # templates in the order they are tried
    t_shape: Ints  # base shape of a template, or -1 if it must open no nodes
    t_kind: Ints
    t_pool: Ints
    t_rejects: Ints
    limits: Ints  # [pool, limited resource] what may still be launched
    p_limited: Bytes

    r_allocatable: Ints  # [template, reservation, resource] allocatable of a node in a slot
    r_free: Ints
    free_max_allocatable: Ints  # [0, resource] the most that any free slot has
    r_zone: Ints  # the domain of its zone, or -1
    visit: Ints  # [r, (visited?, from reservation, by node)] scratch
    queue: Ints

    log_class: Ints
    log_variant: Ints
    log_node: Ints
