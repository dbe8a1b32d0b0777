"""Every test of the Kube door runs in each world there is."""

import pytest

from kube_worlds import WORLDS, World


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest) -> World:
    return WORLDS[request.param]()
