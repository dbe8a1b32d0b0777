import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browser import chromium
from page_server import CLUSTERS, PageServer, cluster

REAL = os.environ.get("HOLDFAST_PAGE", "")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def server() -> PageServer:
    """A small cluster, not started yet."""
    return cluster("small")


@pytest.fixture
def address(server: PageServer) -> Iterator[str]:
    with server.running() as found:
        yield found


@pytest.fixture(params=[*CLUSTERS, *(("real",) if REAL else ())])
def any_address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Small, hostile and huge clusters, and a running Holdfast if HOLDFAST_PAGE has its address."""
    if request.param == "real":
        yield REAL
        return
    with cluster(request.param).running() as found:
        yield found
