"""NodePools: readiness, counts of nodes, registration health and the hash of the template."""
