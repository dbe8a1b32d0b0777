"""Capacity reservations: one reading of all of them, and which of them an EC2NodeClass selects."""
