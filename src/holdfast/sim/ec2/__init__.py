"""The simulated EC2, a strict referee: where it were kinder than EC2, every test would lie.

`service.Ec2` is the door for calls, `control` is what a scenario does to the world behind EC2's back. Which
behaviour is known and which is guessed is in docs/fidelity-ec2.md.
"""
