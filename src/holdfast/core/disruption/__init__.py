"""decide(cluster, settings, cache) -> Decision: which nodes to disrupt now, and why the other nodes are not
disrupted."""
