"""The state of one packing run as arrays, shared between Python and the placement kernel.

Built by `run`, read and written by `kernel`. Everything is an index: classes, variants, nodes, shapes, groups,
domains, reservations. A *variant* is a class of equal pods at one level of relaxation; a *shape* is a set of
requirements on a node together with the offerings that satisfy them.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

# --- Answers of a look-up ---------------------------------------------------------------------------
NO: Final = -1  # never again: it only gets tighter
SOFT: Final = -2  # not now, though it may become possible

EMPTY: Final = -2  # of a slot in `verdicts`
NEED: Final = -10  # at or below: Python must supply something; the reason is the distance

# --- The domain that a level of `trail` tried last, where it is none ----------------------------------
UNTRIED: Final = -1
UNLABELLED: Final = -2  # the node has no such label, and need not have it

# --- Kinds of nodes ---------------------------------------------------------------------------------
EXISTING: Final = 0
BOUGHT: Final = 1
RESERVED: Final = 2

# --- Stages that a pod goes through; a list of these is the order -----------------------------------
STAGE_EXISTING: Final = 0
STAGE_BOUGHT: Final = 1  # nodes of this run that are bought
STAGE_RESERVED: Final = 2  # nodes of this run that hold a slot
STAGE_OPEN: Final = 3  # a new node, of the templates at these positions of `t_order`
STAGE_PAID: Final = 4  # nodes of this run that are bought, as long as they do not get dearer

# --- Why the kernel returned ------------------------------------------------------------------------
DONE: Final = 0
NEEDS_TRANSITION: Final = 1  # shape, op
NEEDS_RESTRICTION: Final = 2  # shape, key, domain
NEEDS_LIMIT: Final = 3  # template
NEEDS_VERDICT: Final = 4  # node, variant, shape
NEEDS_ROOM: Final = 5

# --- Registers --------------------------------------------------------------------------------------
(
    POSITION,  # in `order`
    NODES,  # how many there are, existing ones included
    LOGGED,  # placements so far
    ARG_A,
    ARG_B,
    ARG_C,
    FREE_SLOTS,  # of all reservations
    RUN_VARIANT,  # whose cursors these are
    CURSOR_EXISTING,
    CURSOR_BOUGHT,
    CURSOR_RESERVED,
    SEARCH,  # counts the searches that could not go on where the last one stopped
    OLDEST_FIRST,  # nodes of this run are asked in the order they were opened, not fewest pods first
    SIZED,  # the variant whose size `roomy` is about, or -1
    REGISTERS,
) = range(15)

BLOCK: Final = 64  # positions that `roomy_in` counts together


class World(NamedTuple):
    """All arrays. Prefixes: c class, v variant, n node, s shape, g group, d domain, k key, r reservation."""

    reg: Ints
    order: Ints  # classes, in the order they are placed
    c_left: Ints  # pods still to place
    c_first: Ints  # first variant; the next class's first ends it
    c_waits: Bytes  # never falls back: only existing nodes and slots

    v_req: Ints  # [v, resource] the room that a node must have for it
    v_load: Ints  # [v, resource] what it takes of that: less where a node is chosen for a whole group
    v_ops: Ints  # requirement sets to try, by v_op_first
    v_op_first: Ints
    v_steady: Bytes  # every rejection is for good
    v_ports: Words  # [v, word] ports it takes
    v_clash: Words  # [v, word] ports it cannot be beside

    v_keys: Ints  # topology keys that a variant has constraints on, by v_key_first
    v_key_first: Ints

    # Volumes that several pods share count once a node: [i, (host group that counts it, resource column)]
    claim_first: Ints
    claims: Ints

    # Constraints by variant, each a range given by *_first.
    spread_first: Ints
    spread: Ints  # [i, (group, skew, counts itself, min domains, eligible set, key or -1 for hosts)]
    near_first: Ints
    near: Ints  # [i, (group, counts itself, eligible set, key or -1)] affinity
    far_first: Ints
    far: Ints  # [i, (group, key or -1)] anti-affinity, own and others'
    note_first: Ints
    note: Ints  # [i, (group, key or -1, every domain?, filter op or -1)] what a placement adds to

    eligible: Bytes  # [set, domain]
    k_first: Ints  # first domain of a key; the next key's first ends it
    trail: Ints  # [level, (shape, domain tried last)] scratch: one level a key that a pod has constraints on
    zone_key: Ints  # [0]: the key whose domains have slots of their own, or -1
    d_free: Ints  # [domain] free slots in a zone

    host_count: NDArray[np.int32]  # [group, node]
    host_total: Ints
    domain_count: Ints  # [group, domain]
    g_key: Ints  # the key of a domain group
    g_filter: Ints  # the filter op of a domain group, or -1
    uncertain: NDArray[
        np.int32
    ]  # [group, node] pods that count once the node's domain, and its passing, are certain

    n_shape: Ints
    n_load: Ints  # [n, resource]
    n_capacity: Ints  # [existing node, resource]
    n_pods: Ints
    n_slot: Ints  # reservation held, or -1
    n_ports: Words
    n_paid: (
        Ints  # [n, resource] the room of the cheapest offering that holds its pods; no rows unless asked for
    )
    roomy: Bytes  # [position] whether the node that is bought and listed there holds one more pod at no cost
    roomy_in: Ints  # [block] how many there are in each block of positions
    n_template: Ints
    n_rejects: Ints  # the last variant that it rejected for good

    listed: Ints  # [kind, position] nodes of this run by number of pods
    place: Ints  # [n] position in `listed`
    bucket: Ints  # [kind, pods] where the nodes with that many pods begin
    lengths: Ints  # [kind, (nodes, most pods)]

    s_domains: Bytes  # [s, domain]
    s_rows: Ints  # [s, (first, end)] in `frontier`
    s_room: Ints  # [s, resource] no row of these has more
    frontier: Ints  # [row, resource] the most that pods can have
    s_priced: Ints  # [s, (first, end)] in `priced_room`
    priced_room: Ints  # [row, resource] what is bought, cheapest first
    s_slots: Ints  # [s, (first, end)] in `slot_reservation`
    slot_reservation: Ints
    slot_room: Ints  # [row, resource]
    s_reserved: Bytes  # [s, reservation] whether the shape has its slots
    s_most: Ints  # [s, limited resource] largest capacity
    s_min_values: Bytes
    s_judged: Ints  # [s, (in which search, turned away?)] scratch

    next_keys: Ints  # open addressing: shape and op -> shape
    next_values: Ints
    cut_keys: Ints  # open addressing: shape and domain -> shape
    cut_values: Ints

    verdicts: Ints  # [slot, (node, its pods, variant, shape, answer)]; a node of EMPTY is a free slot

    stages: Ints  # [i, (stage, first position in `t_order`, end)]
    t_order: Ints  # templates in the order they are tried
    t_shape: Ints  # base shape of a template, or -1 when it is closed
    t_kind: Ints
    t_pool: Ints
    t_rejects: Ints
    limits: Ints  # [pool, limited resource] what is left
    p_limited: Bytes

    r_room: Ints  # [template, reservation, resource] what pods can have in a slot
    r_free: Ints
    free_most: Ints  # [0, resource] no free slot has more than this
    r_zone: Ints  # the domain of its zone, or -1
    visit: Ints  # [r, (seen, from reservation, by node)] scratch
    queue: Ints

    log_class: Ints
    log_variant: Ints
    log_node: Ints
