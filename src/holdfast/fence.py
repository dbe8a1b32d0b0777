"""The fence before every write: a replica sends one only while it certainly holds the Lease.

The adapters `kube` and `cloud/aws` call `check` after every wait, right before a write is sent: a process that was paused
in a rate limit, a retry, a thread pool or a connection attempt then sends nothing. The fence is in a context variable,
because the libraries that open connections pass no arguments through. A pause between the check and the system call
remains, for which EC2 and the API server offer no fencing token (docs/adr/0041).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from holdfast import errors

MayWrite = Callable[[], bool]

_NOT_LEADER: Final = "this replica does not hold the leader's Lease, so it does not write"
_READS_ONLY: Final = "this command only reads, so it does not write"


def always() -> bool:
    """For programs without leader election: every write is allowed."""
    return True


def never() -> bool:
    """For programs that only read: no write is allowed."""
    return False


_MAY_WRITE: Final[ContextVar[MayWrite]] = ContextVar("may_write", default=always)


@contextmanager
def guard(may_write: MayWrite) -> Iterator[None]:
    """Checks now, and when an adapter calls `check` inside the block. Raises NotReady without the Lease."""
    token = _MAY_WRITE.set(may_write)
    try:
        check()
        yield
    finally:
        _MAY_WRITE.reset(token)


def check() -> None:
    may_write = _MAY_WRITE.get()
    if not may_write():
        raise errors.NotReady(_READS_ONLY if may_write is never else _NOT_LEADER)
