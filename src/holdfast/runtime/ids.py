"""The Ids door on the machine's own dice. Callers: `app`, for every world that need not replay."""

import secrets
from typing import Final

_DICE: Final = secrets.SystemRandom()


class RealIds:
    def token(self) -> str:
        return secrets.token_hex(16)

    def jitter(self, seconds: float) -> float:
        return _DICE.random() * seconds
