"""Clients of AWS that send reads and dry runs, and record every write instead of sending it.

A write that the controllers only need to succeed, such as a tag, is answered as if it had. Every other write raises
NotReady, which the controllers retry later: a call that was not sent has no result that they could act on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors
from holdfast.cloud.aws.client.calls import READS, Clients

_SUCCEEDS: Final = frozenset({"CreateTags", "TagInstanceProfile"})


@dataclass(frozen=True, slots=True)
class AwsWrite:
    """A call that was not sent."""

    service: str
    operation: str
    parameters: Mapping[str, Any]


class RecordingClients(Clients):
    def __init__(self, inner: Clients, record: Callable[[AwsWrite], None]) -> None:
        super().__init__(inner.region)
        self._inner = inner
        self._record = record

    def get(self, service: str) -> Any:
        return _RecordingClient(self._inner.get(service), service, self._record)

    def close(self) -> None:
        self._inner.close()


class _RecordingClient:
    """A botocore client: its methods are the operations of a service in snake case."""

    def __init__(self, inner: Any, service: str, record: Callable[[AwsWrite], None]) -> None:
        self._inner = inner
        self._service = service
        self._record = record
        self.meta = inner.meta

    def __getattr__(self, method: str) -> Callable[..., Any]:
        operation = self.meta.method_to_api_mapping[method]
        send: Callable[..., Any] = getattr(self._inner, method)

        def call(**parameters: Any) -> Any:
            if operation.startswith(READS) or parameters.get("DryRun"):
                return send(**parameters)
            self._record(AwsWrite(self._service, operation, parameters))
            if operation in _SUCCEEDS:
                return {}
            raise errors.NotReady(f"{operation}: not sent, because this is a dry run")

        return call
