"""Frozen values that decisions are made from: quantities, requirements, offerings, reservations.

Cloud-neutral and exact: integers inside, no I/O, no wire format.
"""
