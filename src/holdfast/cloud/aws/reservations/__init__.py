"""Capacity reservations: reads all of them, and finds those that an EC2NodeClass selects."""
