"""Disruption as it is done: decide, look again, then carry it out in steps that a restart takes up or takes back."""
