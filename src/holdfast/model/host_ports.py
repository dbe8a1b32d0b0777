"""Ports that pods take on the node itself.

Called by the planner. The rule (S-87): two pods conflict on a node when port and protocol are equal and the
addresses are too, or one of them means every address. `state` builds these from containers, not from init
containers, with TCP where no protocol is given and every address in its shortest form.
"""

from dataclasses import dataclass
from typing import Final

EVERY_ADDRESS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - names what others bind to; nothing listens here


@dataclass(frozen=True, slots=True)
class HostPort:
    port: int
    protocol: str = "TCP"
    ip: str = ""

    def conflicts(self, other: "HostPort") -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or self.ip in EVERY_ADDRESS or other.ip in EVERY_ADDRESS
