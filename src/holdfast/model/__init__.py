"""Immutable values that decisions read: quantities, requirements, offerings, reservations, snapshots.

Cloud-neutral and exact: integers inside, no I/O, no wire format.
"""
