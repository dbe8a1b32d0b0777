"""Reservations: capacity labels, expiration, and the condition of NodePools."""
