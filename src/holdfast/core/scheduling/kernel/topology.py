"""Constraints on domains: which of them a node may still be in once it has a pod, and the shape that follows."""

import numpy as np

from holdfast.core.scheduling.world import (
    ARG_A,
    ARG_B,
    ARG_C,
    CODE_DOMAINS,
    NEED,
    NEEDS_RESTRICTION,
    NEEDS_TRANSITION,
    NO,
    RESERVED,
    SOFT,
    World,
)


def narrowed(w: World, v: int, shape: int, kind: int) -> int:
    """The shape with its domains cut to what the topology constraints of the pod allow."""
    for i in range(w.far_first[v], w.far_first[v + 1]):
        if w.far[i, 1] >= 0 and shape >= 0:
            shape = without_others(w, i, shape)
    for i in range(w.near_first[v], w.near_first[v + 1]):
        if w.near[i, 3] >= 0 and shape >= 0:
            shape = with_others(w, i, shape)
    for i in range(w.spread_first[v], w.spread_first[v + 1]):
        if w.spread[i, 5] >= 0 and shape >= 0:
            shape = evenly(w, i, shape, kind)
    return shape


def without_others(w: World, i: int, shape: int) -> int:
    """Only domains where nobody is to be kept away from; a node without the label is in none, so it will do."""
    group, key = w.far[i, 0], w.far[i, 1]
    first, end = w.k_first[key], w.k_first[key + 1]
    possible, allowed, code = 0, 0, 0
    for d in range(first, end):
        if w.s_domains[shape, d] == 0:
            continue
        possible += 1
        if w.domain_count[group, d] == 0:
            allowed += 1
            if end - first <= CODE_DOMAINS:
                code |= 1 << (d - first)
            elif allowed == 1:
                code = d - first
    if allowed == 0:
        return shape if possible == 0 else NO
    return cut(w, shape, key, allowed if end - first <= CODE_DOMAINS else 1, code)


def with_others(w: World, i: int, shape: int) -> int:
    """A domain where there are others to be near to; among those, one with a free slot.

    Where nobody is, and nobody is anywhere else that the pod could go, it may be the first.
    """
    group, key = w.near[i, 0], w.near[i, 3]
    best, populated = -1, 0
    for d in range(w.k_first[key], w.k_first[key + 1]):
        if w.domain_count[group, d] > 0:
            populated += w.eligible[w.near[i, 2], d]
            if w.s_domains[shape, d] and better(w, key, d, best):
                best = d
    if best >= 0:
        return cut_to(w, shape, key, best)
    if populated > 0 or w.near[i, 1] == 0:
        return SOFT
    for d in range(w.k_first[key], w.k_first[key + 1]):
        if w.s_domains[shape, d] and w.eligible[w.near[i, 2], d] and better(w, key, d, best):
            best = d
    return NO if best < 0 else cut_to(w, shape, key, best)


def better(w: World, key: int, d: int, best: int) -> bool:
    return best < 0 or (slots_in(w, key, d) > 0 and slots_in(w, key, best) == 0)


def evenly(w: World, i: int, shape: int, kind: int) -> int:
    """The least populated domain within the skew; among equals, one with a free slot."""
    group, skew, itself, key = w.spread[i, 0], w.spread[i, 1], w.spread[i, 2], w.spread[i, 5]
    first, end = w.k_first[key], w.k_first[key + 1]
    least, domains = -1, 0
    for d in range(first, end):
        if w.eligible[w.spread[i, 4], d]:
            domains += 1
            if least < 0 or w.domain_count[group, d] < least:
                least = w.domain_count[group, d]
    if least < 0 or domains < w.spread[i, 3]:
        least = 0
    best = -1
    for d in range(first, end):
        count = w.domain_count[group, d]
        if w.s_domains[shape, d] == 0 or count + itself - least > skew:
            continue
        if kind == RESERVED and key == w.zone_key[0] and slots_in(w, key, d) == 0:
            continue
        if (
            best < 0
            or count < w.domain_count[group, best]
            or (
                count == w.domain_count[group, best]
                and slots_in(w, key, d) > 0
                and slots_in(w, key, best) == 0
            )
        ):
            best = d
    return SOFT if best < 0 else cut_to(w, shape, key, best)


def slots_in(w: World, key: int, d: int) -> int:
    return w.d_free[d] if key == w.zone_key[0] else 0


def cut_to(w: World, shape: int, key: int, d: int) -> int:
    first, end = w.k_first[key], w.k_first[key + 1]
    code = 1 << (d - first) if end - first <= CODE_DOMAINS else d - first
    return cut(w, shape, key, 1, code)


def cut(w: World, shape: int, key: int, allowed: int, code: int) -> int:
    """The shape with only these domains of a key; the same shape when it has no others."""
    possible = 0
    for d in range(w.k_first[key], w.k_first[key + 1]):
        possible += w.s_domains[shape, d]
    if possible == allowed:
        return shape
    slot = cut_slot(w.cut_keys, w.cut_codes, shape * w.k_first.shape[0] + key, code)
    if w.cut_keys[slot] >= 0:
        return w.cut_values[slot]
    w.reg[ARG_A] = shape
    w.reg[ARG_B] = key
    w.reg[ARG_C] = code
    return NEED - NEEDS_RESTRICTION


def after(w: World, shape: int, op: int) -> int:
    """The shape once a requirement set is added to it."""
    slot = next_slot(w.next_keys, shape, op)
    if w.next_keys[slot] >= 0:
        return w.next_values[slot]
    w.reg[ARG_A] = shape
    w.reg[ARG_B] = op
    return NEED - NEEDS_TRANSITION


def next_slot(keys: np.ndarray, shape: int, op: int) -> int:
    """Where (shape, op) is in the table, or the empty place where it belongs."""
    mask = keys.shape[0] - 1
    key = (shape << 22) | op
    slot = ((key * 40503) ^ (key >> 13)) & mask
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


def cut_slot(keys: np.ndarray, codes: np.ndarray, key: int, code: int) -> int:
    mask = keys.shape[0] - 1
    slot = ((key * 40503) ^ ((code % 1048573) * 8191)) & mask
    while keys[slot] >= 0 and (keys[slot] != key or codes[slot] != code):
        slot = (slot + 1) & mask
    return slot


def known_to_groups(w: World, v: int, shape: int) -> int:
    """Makes sure that `commit` can tell which groups count this placement; the shape, or a need."""
    if shape < 0:
        return shape
    for i in range(w.note_first[v], w.note_first[v + 1]):
        if w.note[i, 3] >= 0:
            answer = after(w, shape, w.note[i, 3])
            if answer <= NEED:
                return answer
    return shape
