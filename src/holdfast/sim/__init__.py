"""Simulated implementations behind the same ports: API server, EC2, kubelets, scheduler, clock, faults.

They check the controllers under test. The package imports `api`, `data` and the ports, never `core`, `model` or
`state`, so that it cannot repeat a mistake of the controllers.
"""
