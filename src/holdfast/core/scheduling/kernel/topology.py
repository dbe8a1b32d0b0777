"""Topology constraints: which domains a node may still be in once it has a pod, and the shape that results."""

from holdfast.core.scheduling.kernel.capacity import check_min_values
from holdfast.core.scheduling.kernel.packing_state import (
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
    Ints,
    PackingState,
)
from holdfast.core.scheduling.kernel.slots import has_capacity


def narrow(ps: PackingState, v: int, shape: int, n: int, kind: int) -> int:
    """The shape with one domain for each topology key that the pod has a constraint on.

    One, also for anti-affinity: a node that may be in several domains would block the next such pod in all of them.
    """
    first, keys = ps.v_key_first[v], ps.v_key_first[v + 1] - ps.v_key_first[v]
    if keys == 0:
        return shape
    if keys > 1:
        return narrow_all_keys(ps, v, shape, n, kind)
    answer, _ = next_choice(ps, v, ps.v_keys[first], shape, n, kind, UNTRIED)
    return SOFT if answer == NO and not ps.v_steady[v] else answer


def narrow_all_keys(ps: PackingState, v: int, shape: int, n: int, kind: int) -> int:
    """Chooses a domain for every key, with backtracking: if no domain of a key is possible, the previous key takes its
    next domain."""
    first, level = ps.v_key_first[v], 0
    ps.trail[0, 0] = shape
    ps.trail[0, 1] = UNTRIED
    while level < ps.v_key_first[v + 1] - first:
        before, last = ps.trail[level, 0], ps.trail[level, 1]
        answer, last = next_choice(ps, v, ps.v_keys[first + level], before, n, kind, last)
        if answer <= NEED:
            return answer
        if answer >= 0:
            ps.trail[level, 1] = last
            level += 1
            shape = answer
            ps.trail[level, 0] = shape
            ps.trail[level, 1] = UNTRIED
        elif level > 0:
            level -= 1
        else:
            return NO if ps.v_steady[v] else SOFT
    return shape


def next_choice(
    ps: PackingState, v: int, key: int, shape: int, n: int, kind: int, last: int
) -> tuple[int, int]:
    """The shape in the next possible domain of a key, and that domain; a need; or NO if there is no other.

    A node without the label is in no domain, which only anti-affinity accepts.
    """
    if last == UNLABELLED:
        return NO, last
    possible, only = 0, -1
    for d in range(ps.k_first[key], ps.k_first[key + 1]):
        if ps.s_domains[shape, d]:
            possible += 1
            only = d
    if possible == 0:
        return (NO, last) if is_spread(ps, v, key) or is_near(ps, v, key) else (shape, UNLABELLED)
    if possible == 1:  # most nodes: nothing to sort
        if last == only or not is_allowed(ps, v, key, only, n):
            return NO, only
        return shape_in_domain(ps, v, shape, key, only, n, kind), only
    while True:
        last = next_domain(ps, v, key, shape, n, last)
        if last < 0:
            return NO, last
        if is_allowed(ps, v, key, last, n):
            answer = shape_in_domain(ps, v, shape, key, last, n, kind)
            if answer != NO:
                return answer, last


def next_domain(ps: PackingState, v: int, key: int, shape: int, n: int, last: int) -> int:
    """The domain of a shape after `last`, or -1. Domains with fewer pods come first, then those with a free slot."""
    before = rank(ps, v, key, last, n) if last >= 0 else -1
    found, lowest = -1, 0
    for d in range(ps.k_first[key], ps.k_first[key + 1]):
        if ps.s_domains[shape, d]:
            here = rank(ps, v, key, d, n)
            if (here > before or (here == before and d > last)) and (found < 0 or here < lowest):
                found, lowest = d, here
    return found


def rank(ps: PackingState, v: int, key: int, d: int, n: int) -> int:
    return 2 * spread_count(ps, v, key, d, n) + (slots_in(ps, key, d) == 0)


def is_allowed(ps: PackingState, v: int, key: int, d: int, n: int) -> bool:
    """Whether every constraint of the pod on this key allows the domain."""
    for i in range(ps.anti_affinity_first[v], ps.anti_affinity_first[v + 1]):
        if ps.anti_affinity[i, 1] == key and ps.domain_count[ps.anti_affinity[i, 0], d] > 0:
            return False
    for i in range(ps.affinity_first[v], ps.affinity_first[v + 1]):
        if (
            ps.affinity[i, 3] == key
            and count_in(ps, ps.affinity[i, 0], d, n) == 0
            and not may_begin_in_domain(ps, i, key, d)
        ):
            return False
    for i in range(ps.spread_first[v], ps.spread_first[v + 1]):
        if ps.spread[i, 5] == key:
            skew = count_in(ps, ps.spread[i, 0], d, n) + ps.spread[i, 2] - least_count(ps, i)
            if skew > ps.spread[i, 1]:
                return False
    return True


def may_begin_in_domain(ps: PackingState, i: int, key: int, d: int) -> bool:
    """Whether the pod may be the first of its affinity group, as in kube-scheduler: no domain at all has a pod of it, and
    the term selects the pod."""
    if ps.affinity[i, 1] == 0 or ps.eligible[ps.affinity[i, 2], d] == 0:
        return False
    for other in range(ps.k_first[key], ps.k_first[key + 1]):
        if ps.domain_count[ps.affinity[i, 0], other] > 0:
            return False
    return True


def is_excluded(ps: PackingState, v: int, n: int) -> bool:
    """Whether the only domain of a node is one that the pod cannot be in now: a shortcut past nodes of one shape.

    Only for variants that are not steady: each of their pods starts at the first node again.
    """
    shape = ps.n_shape[n]
    if ps.s_excluded[shape, 0] != ps.reg[SEARCH]:
        ps.s_excluded[shape, 0] = ps.reg[SEARCH]
        ps.s_excluded[shape, 1] = has_excluded_domain(ps, v, shape)
    if ps.s_excluded[shape, 1] == 0:
        return False
    for i in range(ps.spread_first[v], ps.spread_first[v + 1]):
        if ps.spread[i, 5] >= 0 and ps.uncertain[ps.spread[i, 0], n] > 0:
            return False
    for i in range(ps.affinity_first[v], ps.affinity_first[v + 1]):
        if ps.affinity[i, 3] >= 0 and ps.uncertain[ps.affinity[i, 0], n] > 0:
            return False
    return True


def has_excluded_domain(ps: PackingState, v: int, shape: int) -> bool:
    """Whether some key of the pod has only one domain in this shape, and the pod is not allowed there."""
    for j in range(ps.v_key_first[v], ps.v_key_first[v + 1]):
        key = ps.v_keys[j]
        possible, only = 0, -1
        for d in range(ps.k_first[key], ps.k_first[key + 1]):
            if ps.s_domains[shape, d]:
                possible += 1
                only = d
        if possible == 1 and not is_allowed(ps, v, key, only, -1):
            return True
    return False


def count_in(ps: PackingState, group: int, d: int, n: int) -> int:
    """How many pods of a group a domain has if the node is in it, with the uncertain pods of the node."""
    count = ps.domain_count[group, d]
    return count + ps.uncertain[group, n] if n >= 0 else count


def spread_count(ps: PackingState, v: int, key: int, d: int, n: int) -> int:
    """How many pods the first spread constraint on the key counts in a domain."""
    for i in range(ps.spread_first[v], ps.spread_first[v + 1]):
        if ps.spread[i, 5] == key:
            return count_in(ps, ps.spread[i, 0], d, n)
    return 0


def is_spread(ps: PackingState, v: int, key: int) -> bool:
    for i in range(ps.spread_first[v], ps.spread_first[v + 1]):
        if ps.spread[i, 5] == key:
            return True
    return False


def is_near(ps: PackingState, v: int, key: int) -> bool:
    for i in range(ps.affinity_first[v], ps.affinity_first[v + 1]):
        if ps.affinity[i, 3] == key:
            return True
    return False


def least_count(ps: PackingState, i: int) -> int:
    """The global minimum over the eligible domains, or 0 if there are fewer of them than minDomains."""
    group, key = ps.spread[i, 0], ps.spread[i, 5]
    least, domains = -1, 0
    for d in range(ps.k_first[key], ps.k_first[key + 1]):
        if ps.eligible[ps.spread[i, 4], d]:
            domains += 1
            if least < 0 or ps.domain_count[group, d] < least:
                least = ps.domain_count[group, d]
    return 0 if least < 0 or domains < ps.spread[i, 3] else least


def shape_in_domain(ps: PackingState, v: int, shape: int, key: int, d: int, n: int, kind: int) -> int:
    """The shape in this domain, if it has capacity for the pod and its minValues hold; NO, or a need."""
    if kind == RESERVED and key == ps.zone_key[0] and n < 0 and slots_in(ps, key, d) == 0:
        return NO
    answer = cut_to(ps, shape, key, d)
    if answer < 0 or kind == EXISTING:
        return answer
    if not has_capacity(ps, v, answer, n, kind):
        return NO
    return check_min_values(ps, v, n, answer) if ps.s_min_values[answer] else answer


def slots_in(ps: PackingState, key: int, d: int) -> int:
    return ps.d_free[d] if key == ps.zone_key[0] else 0


def cut_to(ps: PackingState, shape: int, key: int, d: int) -> int:
    """The shape with only this domain of a key; the same shape if it has no other."""
    possible = 0
    for other in range(ps.k_first[key], ps.k_first[key + 1]):
        possible += ps.s_domains[shape, other]
    if possible == 1:
        return shape
    index = table_index(ps.cut_keys, shape, d)
    if ps.cut_keys[index] >= 0:
        return ps.cut_values[index]
    ps.reg[ARG_A] = shape
    ps.reg[ARG_B] = key
    ps.reg[ARG_C] = d
    return NEED - NEEDS_RESTRICTION


def shape_after(ps: PackingState, shape: int, op: int) -> int:
    """The shape once a requirement set is added to it."""
    index = table_index(ps.next_keys, shape, op)
    if ps.next_keys[index] >= 0:
        return ps.next_values[index]
    ps.reg[ARG_A] = shape
    ps.reg[ARG_B] = op
    return NEED - NEEDS_TRANSITION


def table_index(keys: Ints, shape: int, other: int) -> int:
    """The index of a shape and an op, or a domain, in a table; or the unused index where they belong."""
    mask = keys.shape[0] - 1
    key = (shape << 22) | other
    index = ((key * 40503) ^ (key >> 13)) & mask
    while keys[index] >= 0 and keys[index] != key:
        index = (index + 1) & mask
    return index


def resolve_filters(ps: PackingState, v: int, n: int, shape: int) -> int:
    """Makes sure that the results of all filters that `commit` reads are in the table: those of groups that count this
    placement, and of groups with uncertain pods on the node. Returns the shape, or a need."""
    if shape < 0:
        return shape
    if n >= 0 and shape != ps.n_shape[n]:
        for group in range(ps.g_filter.shape[0]):
            if ps.g_filter[group] >= 0 and ps.uncertain[group, n] > 0:
                answer = shape_after(ps, shape, ps.g_filter[group])
                if answer <= NEED:
                    return answer
    for i in range(ps.counting_first[v], ps.counting_first[v + 1]):
        if ps.counting[i, 3] >= 0:
            answer = shape_after(ps, shape, ps.counting[i, 3])
            if answer <= NEED:
                return answer
    return shape
