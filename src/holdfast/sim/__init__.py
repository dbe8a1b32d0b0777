"""The simulated world behind the same doors: API server, EC2, kubelet, scheduler, clock, faults.

It is the referee: it imports `api`, `data` and the doors, never `core`, `model` or `state`, so that
a mistake of the player cannot be repeated by the one who judges it.
"""
