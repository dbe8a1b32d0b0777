"""decide(cluster, settings, memory) -> Decision: what to disrupt now, and why everything else stays."""
