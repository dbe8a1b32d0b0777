"""The simulated EC2. It is strict: if it accepted more than EC2, tests would pass wrongly.

`service.Ec2` handles API calls; `control` changes the state of the region without an API call, for scenarios.
docs/fidelity-ec2.md lists which behaviour is known and which is assumed.
"""
