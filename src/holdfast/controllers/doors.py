"""The doors that controllers hold, as one value. Made by `app`, which decides which world is behind them."""

from dataclasses import dataclass

from holdfast.ports import Clock, Cloud, Compute, Ids, Kube, Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    kube: Kube
    cloud: Cloud
    compute: Compute
    clock: Clock
    ids: Ids
    recorder: Recorder
