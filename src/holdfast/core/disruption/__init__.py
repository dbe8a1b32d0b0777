"""propose(snapshot, now) -> commands: emptiness, drift, consolidation; a file per method."""
