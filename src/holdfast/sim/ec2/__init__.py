"""The simulated EC2, a strict checker: a test would pass wrongly where it accepted more than EC2 does.

`service.Ec2` answers API calls; `control` changes the region's state without an API call, for scenarios. Which
behaviour is known and which is guessed is in docs/fidelity-ec2.md.
"""
