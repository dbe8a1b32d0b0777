"""Capacity that was paid for: what NodePools are told about it."""
