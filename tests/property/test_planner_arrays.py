"""Array functions of the planner, compared with plain loops over random values."""

import dataclasses
import itertools
import random

import numpy as np
import pytest

from holdfast import names
from holdfast.core.scheduling.input import axes, columns, shapes
from holdfast.model import resources
from planner_builders import instance_type, offering

SEEDS = range(200)


@pytest.mark.parametrize("size", [0, 1, 3, 63, 64, 65, 200])
def test_rows_that_no_earlier_row_covers(size: int) -> None:
    for seed in range(20):
        dice = random.Random(seed)
        rows = np.array([[dice.randint(0, 9) for _ in range(3)] for _ in range(size)], dtype=np.int64)
        rows = rows.reshape(size, 3)
        found = shapes.larger_than_before(rows).tolist()
        for i in range(size):
            covered = any((rows[j] >= rows[i]).all() for j in range(i))
            assert found[i] is not covered, f"seed {seed}, row {i}"


def test_indexes_in_the_order_of_their_first_occurrence() -> None:
    for seed in SEEDS:
        dice = random.Random(seed)
        indexes = [dice.randint(0, 20) for _ in range(dice.randint(0, 60))]
        found = axes.in_order(np.array(indexes, dtype=np.int64)).tolist()
        assert found == list(dict.fromkeys(indexes)), f"seed {seed}"


def test_offerings_are_ranked_by_their_order_key() -> None:
    for seed in SEEDS:
        dice = random.Random(seed)
        ids = map("cr-{}".format, itertools.count())
        types = []
        for i in range(dice.randint(0, 6)):
            kinds = dice.choices(names.CAPACITY_TYPES, k=dice.randint(0, 3))
            offerings = tuple(
                offering(
                    kind,
                    dice.choice("ab"),
                    dice.choice([0, 1, 2]),  # 0: unknown
                    surcharge_nano_usd_per_hour=dice.choice([0, 0, 5]),
                    reservation_id=next(ids) if kind == names.RESERVED else None,
                )
                for kind in kinds
            )
            one = instance_type(f"t{i}", dice.choice([1, 2, 4]), dice.choice([4, 8]), 1)
            types.append(dataclasses.replace(one, offerings=offerings))
        keys = [t.order_key(o) for t in types for o in t.offerings]
        order = np.argsort(columns.columns(tuple(types)).rank).tolist()
        assert order == sorted(range(len(keys)), key=keys.__getitem__), f"seed {seed}"


def test_offerings_with_the_same_overrides_share_allocatable() -> None:
    smaller = resources.of({"memory": 2**30})
    offerings = [
        offering(names.ON_DEMAND, zone, 1, capacity_override=override)
        for zone, override in (
            ("a", resources.NOTHING),
            ("b", smaller),
            ("c", smaller),
            ("d", resources.NOTHING),
        )
    ]
    one = dataclasses.replace(instance_type("t", 2, 8, 1), offerings=tuple(offerings))
    found = columns.columns((one, one))
    assert found.allocatable_index.tolist() == [0, 1, 1, 0, 2, 3, 3, 2]
    memory = found.allocatable("memory")[found.allocatable_index].tolist()
    assert memory == [t.allocatable_of(o)["memory"] for t in (one, one) for o in offerings]
