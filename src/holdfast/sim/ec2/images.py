"""An image of a region's setup."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

AMAZON: Final = "602401143452"  # owner of the EKS images


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    id: str
    name: str
    architecture: str
    created_s: int
    owner: str = AMAZON
    platform: str = "Linux/UNIX"
    state: str = "available"
    deprecated_s: int = 0
    root_device: str = "/dev/xvda"
    public: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
