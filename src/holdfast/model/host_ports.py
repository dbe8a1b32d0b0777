"""Host ports of pods.

Two pods conflict on a node if port and protocol are equal, and the addresses are equal or one of them is the wildcard
address. `state` builds these from containers, not from init containers, with TCP as the default protocol and addresses
in their shortest form (S-87).
"""

from dataclasses import dataclass
from typing import Final

EVERY_ADDRESS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - addresses in pod specs; nothing listens here


@dataclass(frozen=True, slots=True)
class HostPort:
    port: int
    protocol: str = "TCP"
    ip: str = ""

    def conflicts(self, other: "HostPort") -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or self.ip in EVERY_ADDRESS or other.ip in EVERY_ADDRESS
