"""NodeClaims: from an instance that is asked for to a node that is ready, and to its end."""
