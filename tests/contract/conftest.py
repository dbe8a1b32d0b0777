"""Every test of the Kube door runs in each world there is; and what tests of processes need to be set."""

import signal
from collections.abc import Iterator

import pytest

from kube_worlds import WORLDS, World


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest) -> World:
    return WORLDS[request.param]()


@pytest.fixture
def hangups() -> Iterator[None]:
    """Processes that are started end when their terminal is closed, though the tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
