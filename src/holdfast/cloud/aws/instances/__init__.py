"""Running instances: reading, tagging, drift, health, and interruption messages."""
