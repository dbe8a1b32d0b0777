"""The Ids port with the operating system's random numbers."""

import secrets
from typing import Final

_RANDOM: Final = secrets.SystemRandom()


class RealIds:
    def token(self) -> str:
        return secrets.token_hex(16)

    def jitter(self, seconds: float) -> float:
        return _RANDOM.random() * seconds
