"""Resource vectors add, subtract and fit as in kube-scheduler and Karpenter."""

import pytest

from holdfast import errors
from holdfast.model import resources
from holdfast.model.resources import NOTHING, Resources, of


def test_cpu_is_in_millis_and_everything_else_in_whole_units() -> None:
    read = resources.parse({"cpu": "1.5", "memory": "1Ki", "example.com/gpu": 2, "ephemeral-storage": "100m"})
    assert read == of({"cpu": 1500, "memory": 1024, "example.com/gpu": 2, "ephemeral-storage": 1})


def test_amounts_are_written_as_kubernetes_writes_them() -> None:
    assert resources.text("cpu", 1500) == "1500m"
    assert resources.text("memory", 1536 * 2**20) == "1536Mi"
    assert resources.text("hugepages-2Mi", 2**21) == "2Mi"
    assert resources.text("example.com/gpu", 1024) == "1024"
    assert str(of({"memory": 2**30, "cpu": 2000})) == "cpu 2, memory 1Gi"
    assert str(NOTHING) == "nothing"


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("vendor.example/fpga", True),
        ("cpu", False),
        ("ephemeral-storage", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batch", False),
        ("example.kubernetes.io/batch", False),
    ],
)
def test_extended_resources_have_a_domain_that_is_not_of_kubernetes(name: str, *, extended: bool) -> None:
    assert resources.is_extended(name) is extended


def test_vectors_are_values() -> None:
    assert of({"cpu": 1, "memory": 2}) == of({"memory": 2, "cpu": 1})
    assert hash(of({"cpu": 1, "memory": 2})) == hash(of({"memory": 2, "cpu": 1}))
    with pytest.raises(AssertionError):
        Resources((("memory", 1), ("cpu", 1)))


def test_a_missing_resource_reads_as_zero_and_is_not_contained() -> None:
    assert of({"cpu": 0})["memory"] == 0
    assert "cpu" in of({"cpu": 0})
    assert "memory" not in of({"cpu": 0})
    assert list(of({"memory": 1, "cpu": 1})) == ["cpu", "memory"]


def test_vectors_add_and_take_the_maximum_per_resource() -> None:
    a, b = of({"cpu": 1, "memory": 5}), of({"cpu": 3, "pods": 1})
    assert resources.add(a, b) == of({"cpu": 4, "memory": 5, "pods": 1})
    assert resources.maximum(a, b) == of({"cpu": 3, "memory": 5, "pods": 1})
    assert resources.add() == NOTHING


def test_the_minimum_covers_only_resources_that_all_vectors_have() -> None:
    assert resources.minimum(of({"cpu": 1}), of({"cpu": 2, "gpu": 1})) == of({"cpu": 1})


def test_subtraction_ignores_resources_of_the_other_vector_and_may_be_negative() -> None:
    assert of({"cpu": 1}).subtract(of({"cpu": 3, "memory": 1})) == of({"cpu": -2})


@pytest.mark.fact("S-54")
def test_a_request_fits_when_no_resource_exceeds_the_total() -> None:
    total = of({"cpu": 2000, "memory": 10})
    assert of({"cpu": 2000, "memory": 10}).fits(total)
    assert not of({"cpu": 2001}).fits(total)
    assert not of({"example.com/gpu": 1}).fits(total), "a total that is missing is 0"
    assert of({"example.com/gpu": 0}).fits(total)


@pytest.mark.fact("S-54")
def test_nothing_fits_when_any_total_is_negative() -> None:
    assert not NOTHING.fits(of({"cpu": 2000, "memory": -1}))
    assert not of({"cpu": 1}).fits(of({"cpu": 2000, "memory": -1}))


def test_an_amount_equal_to_the_limit_does_not_exceed_it() -> None:
    limits = of({"cpu": 10, "memory": 10})
    assert of({"cpu": 10, "gpu": 99}).first_above(limits) is None
    assert of({"cpu": 11, "memory": 11}).first_above(limits) == "cpu"
    assert of({"nodes": 1}).first_above(of({"nodes": 0})) == "nodes"


def test_negative_requests_are_refused() -> None:
    assert resources.parse_requests({"cpu": "0"})["cpu"] == 0
    with pytest.raises(errors.InvalidInput, match="nothing can be less than 0"):
        resources.parse_requests({"cpu": "-1"})


def test_entries_that_are_not_quantities_are_ignored() -> None:
    found = resources.parse_readable({"cpu": "many", "memory": "1Ki", "pods": "1e5000"})
    assert dict(found.amounts) == {"memory": 1024}


def test_amounts_are_capped_and_sums_are_exact() -> None:
    most = resources.parse({"memory": "9999999999999999999"})
    assert most["memory"] == 2**63 - 1
    assert resources.add(most, most).subtract(most) == most
