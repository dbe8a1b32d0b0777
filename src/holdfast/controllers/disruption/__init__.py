"""Disruption: decides, validates, and executes commands in steps that a restart continues or rolls back."""
