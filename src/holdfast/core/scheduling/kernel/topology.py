"""Constraints on domains: which of them a node may still be in once it has a pod, and the shape that follows."""

import numpy as np

from holdfast.core.scheduling.kernel.room import verdict
from holdfast.core.scheduling.kernel.slots import has_room
from holdfast.core.scheduling.world import (
    ARG_A,
    ARG_B,
    ARG_C,
    EXISTING,
    NEED,
    NEEDS_RESTRICTION,
    NEEDS_TRANSITION,
    NO,
    RESERVED,
    SEARCH,
    SOFT,
    UNLABELLED,
    UNTRIED,
    World,
)


def narrowed(w: World, v: int, shape: int, n: int, kind: int) -> int:
    """The shape with one domain for each topology key that the pod has a constraint on.

    One, also for anti-affinity: a node that may be in several would keep the next such pod out of all of them.
    """
    first, keys = w.v_key_first[v], w.v_key_first[v + 1] - w.v_key_first[v]
    if keys == 0:
        return shape
    if keys > 1:
        return in_all_keys(w, v, shape, n, kind)
    answer, _ = next_choice(w, v, w.v_keys[first], shape, n, kind, UNTRIED)
    return SOFT if answer == NO and not w.v_steady[v] else answer


def in_all_keys(w: World, v: int, shape: int, n: int, kind: int) -> int:
    """Keys are decided together: where no domain of a key goes with those chosen before it, the key before takes its
    next."""
    first, level = w.v_key_first[v], 0
    w.trail[0, 0] = shape
    w.trail[0, 1] = UNTRIED
    while level < w.v_key_first[v + 1] - first:
        before, last = w.trail[level, 0], w.trail[level, 1]
        answer, last = next_choice(w, v, w.v_keys[first + level], before, n, kind, last)
        if answer <= NEED:
            return answer
        if answer >= 0:
            w.trail[level, 1] = last
            level += 1
            shape = answer
            w.trail[level, 0] = shape
            w.trail[level, 1] = UNTRIED
        elif level > 0:
            level -= 1
        else:
            return NO if w.v_steady[v] else SOFT
    return shape


def next_choice(w: World, v: int, key: int, shape: int, n: int, kind: int, last: int) -> tuple[int, int]:
    """The shape in the next domain of a key that will do, and that domain; a need; or NO when there is no other.

    A node without the label is in no domain; that is all right for anti-affinity, and for nothing else.
    """
    if last == UNLABELLED:
        return NO, last
    possible, only = 0, -1
    for d in range(w.k_first[key], w.k_first[key + 1]):
        if w.s_domains[shape, d]:
            possible += 1
            only = d
    if possible == 0:
        return (NO, last) if is_spread(w, v, key) or is_near(w, v, key) else (shape, UNLABELLED)
    if possible == 1:  # most nodes: nothing to put in order
        if last == only or not allowed(w, v, key, only, n):
            return NO, only
        return settled(w, v, shape, key, only, n, kind), only
    while True:
        last = next_domain(w, v, key, shape, n, last)
        if last < 0:
            return NO, last
        if allowed(w, v, key, last, n):
            answer = settled(w, v, shape, key, last, n, kind)
            if answer != NO:
                return answer, last


def next_domain(w: World, v: int, key: int, shape: int, n: int, last: int) -> int:
    """The domain of a shape that comes after `last`, or -1: the least populated first, then one with a free slot."""
    before = rank(w, v, key, last, n) if last >= 0 else -1
    found, lowest = -1, 0
    for d in range(w.k_first[key], w.k_first[key + 1]):
        if w.s_domains[shape, d]:
            here = rank(w, v, key, d, n)
            if (here > before or (here == before and d > last)) and (found < 0 or here < lowest):
                found, lowest = d, here
    return found


def rank(w: World, v: int, key: int, d: int, n: int) -> int:
    return 2 * crowd(w, v, key, d, n) + (slots_in(w, key, d) == 0)


def allowed(w: World, v: int, key: int, d: int, n: int) -> bool:
    """Whether every constraint of the pod on this key lets it into the domain."""
    for i in range(w.far_first[v], w.far_first[v + 1]):
        if w.far[i, 1] == key and w.domain_count[w.far[i, 0], d] > 0:
            return False
    for i in range(w.near_first[v], w.near_first[v + 1]):
        if w.near[i, 3] == key and there(w, w.near[i, 0], d, n) == 0 and not may_begin(w, i, key, d):
            return False
    for i in range(w.spread_first[v], w.spread_first[v + 1]):
        if w.spread[i, 5] == key:
            skew = there(w, w.spread[i, 0], d, n) + w.spread[i, 2] - least_count(w, i)
            if skew > w.spread[i, 1]:
                return False
    return True


def may_begin(w: World, i: int, key: int, d: int) -> bool:
    """Nobody is anywhere that the pod could go, and it is one of those it wants to be near."""
    if w.near[i, 1] == 0 or w.eligible[w.near[i, 2], d] == 0:
        return False
    for other in range(w.k_first[key], w.k_first[key + 1]):
        if w.eligible[w.near[i, 2], other] and w.domain_count[w.near[i, 0], other] > 0:
            return False
    return True


def turned_away(w: World, v: int, n: int) -> bool:
    """Whether the only domain of a node is one that the pod cannot be in now: a short cut past nodes that are alike.

    Asked only for pods whose chances change as others are placed: each of them looks at all nodes anew.
    """
    shape = w.n_shape[n]
    if w.s_judged[shape, 0] != w.reg[SEARCH]:
        w.s_judged[shape, 0] = w.reg[SEARCH]
        w.s_judged[shape, 1] = excluded(w, v, shape)
    if w.s_judged[shape, 1] == 0:
        return False
    for i in range(w.spread_first[v], w.spread_first[v + 1]):
        if w.spread[i, 5] >= 0 and w.uncertain[w.spread[i, 0], n] > 0:
            return False
    for i in range(w.near_first[v], w.near_first[v + 1]):
        if w.near[i, 3] >= 0 and w.uncertain[w.near[i, 0], n] > 0:
            return False
    return True


def excluded(w: World, v: int, shape: int) -> bool:
    """Whether a key of the pod has one domain in this shape, and it is not allowed there."""
    for j in range(w.v_key_first[v], w.v_key_first[v + 1]):
        key = w.v_keys[j]
        possible, only = 0, -1
        for d in range(w.k_first[key], w.k_first[key + 1]):
            if w.s_domains[shape, d]:
                possible += 1
                only = d
        if possible == 1 and not allowed(w, v, key, only, -1):
            return True
    return False


def there(w: World, group: int, d: int, n: int) -> int:
    """How many pods of a group a domain has once the node is in it: its own uncertain ones count then too."""
    count = w.domain_count[group, d]
    return count + w.uncertain[group, n] if n >= 0 else count


def crowd(w: World, v: int, key: int, d: int, n: int) -> int:
    """How many pods count against a domain for the first spread constraint on the key."""
    for i in range(w.spread_first[v], w.spread_first[v + 1]):
        if w.spread[i, 5] == key:
            return there(w, w.spread[i, 0], d, n)
    return 0


def is_spread(w: World, v: int, key: int) -> bool:
    for i in range(w.spread_first[v], w.spread_first[v + 1]):
        if w.spread[i, 5] == key:
            return True
    return False


def is_near(w: World, v: int, key: int) -> bool:
    for i in range(w.near_first[v], w.near_first[v + 1]):
        if w.near[i, 3] == key:
            return True
    return False


def least_count(w: World, i: int) -> int:
    """The global minimum: over the domains that the pod could be in, or 0 when there are too few of them."""
    group, key = w.spread[i, 0], w.spread[i, 5]
    least, domains = -1, 0
    for d in range(w.k_first[key], w.k_first[key + 1]):
        if w.eligible[w.spread[i, 4], d]:
            domains += 1
            if least < 0 or w.domain_count[group, d] < least:
                least = w.domain_count[group, d]
    return 0 if least < 0 or domains < w.spread[i, 3] else least


def settled(w: World, v: int, shape: int, key: int, d: int, n: int, kind: int) -> int:
    """The shape in this domain, where the pod must also have room and types enough; NO, or a need."""
    if kind == RESERVED and key == w.zone_key[0] and n < 0 and slots_in(w, key, d) == 0:
        return NO
    answer = cut_to(w, shape, key, d)
    if answer < 0 or kind == EXISTING:
        return answer
    if not has_room(w, v, answer, n, kind):
        return NO
    return verdict(w, v, n, answer) if w.s_min_values[answer] else answer


def slots_in(w: World, key: int, d: int) -> int:
    return w.d_free[d] if key == w.zone_key[0] else 0


def cut_to(w: World, shape: int, key: int, d: int) -> int:
    """The shape with only this domain of a key; the same shape when it has no other."""
    possible = 0
    for other in range(w.k_first[key], w.k_first[key + 1]):
        possible += w.s_domains[shape, other]
    if possible == 1:
        return shape
    slot = table_slot(w.cut_keys, shape, d)
    if w.cut_keys[slot] >= 0:
        return w.cut_values[slot]
    w.reg[ARG_A] = shape
    w.reg[ARG_B] = key
    w.reg[ARG_C] = d
    return NEED - NEEDS_RESTRICTION


def after(w: World, shape: int, op: int) -> int:
    """The shape once a requirement set is added to it."""
    slot = table_slot(w.next_keys, shape, op)
    if w.next_keys[slot] >= 0:
        return w.next_values[slot]
    w.reg[ARG_A] = shape
    w.reg[ARG_B] = op
    return NEED - NEEDS_TRANSITION


def table_slot(keys: np.ndarray, shape: int, other: int) -> int:
    """Where a shape and an op, or a domain, are in a table; or the empty place where they belong."""
    mask = keys.shape[0] - 1
    key = (shape << 22) | other
    slot = ((key * 40503) ^ (key >> 13)) & mask
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


def known_to_groups(w: World, v: int, n: int, shape: int) -> int:
    """Makes sure that `commit` can tell which groups count this placement, and which may count what is on the node
    from now on; the shape, or a need."""
    if shape < 0:
        return shape
    if n >= 0 and shape != w.n_shape[n]:
        for group in range(w.g_filter.shape[0]):
            if w.g_filter[group] >= 0 and w.uncertain[group, n] > 0:
                answer = after(w, shape, w.g_filter[group])
                if answer <= NEED:
                    return answer
    for i in range(w.note_first[v], w.note_first[v + 1]):
        if w.note[i, 3] >= 0:
            answer = after(w, shape, w.note[i, 3])
            if answer <= NEED:
                return answer
    return shape
