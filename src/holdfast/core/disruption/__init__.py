"""decide(cluster, settings, memory) -> Decision: which nodes to disrupt now, and why the others are not."""
