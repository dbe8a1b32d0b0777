"""The simulator behind the same ports: API server, EC2, kubelet, scheduler, clock, faults.

It checks the controller under test: it imports `api`, `data` and the ports, never `core`, `model` or `state`, so
that the simulator cannot repeat a mistake of the controller.
"""
