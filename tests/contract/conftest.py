"""Runs every test of the Kube port against each API server, and resets signals for tests that start processes."""

import signal
from collections.abc import Iterator

import pytest

from kube_servers import SERVERS, KubeServer


@pytest.fixture(params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> KubeServer:
    return SERVERS[request.param]()


@pytest.fixture
def hangups() -> Iterator[None]:
    """Child processes exit on SIGHUP, although the tests may run under nohup, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
