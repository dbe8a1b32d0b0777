"""The fence in front of every write: a replica sends one only while it certainly holds the leader's Lease.

The adapters `kube` and `cloud/aws` call `check` after every wait, right before the bytes of a write leave: a process that
was paused in a rate limit, a retry, a thread pool or a connection attempt then sends nothing. The fence travels in a
context variable, because the libraries that open connections pass nothing through. What remains is a pause between the
check and the system call, for which EC2 and the API server offer no token (docs/adr/0041).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from holdfast import errors

MayWrite = Callable[[], bool]

_NOT_LEADER: Final = "this replica does not hold the leader's Lease, so it does not write"


def always() -> bool:
    """Without leader election every write is allowed."""
    return True


_MAY_WRITE: Final[ContextVar[MayWrite]] = ContextVar("may_write", default=always)


@contextmanager
def guarding(may_write: MayWrite) -> Iterator[None]:
    """Checks now, and again wherever an adapter calls `check` inside the block. NotReady: the Lease is not held."""
    token = _MAY_WRITE.set(may_write)
    try:
        check()
        yield
    finally:
        _MAY_WRITE.reset(token)


def check() -> None:
    if not _MAY_WRITE.get()():
        raise errors.NotReady(_NOT_LEADER)
