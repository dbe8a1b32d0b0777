"""NodePools: whether they can be used, what they hold, and the fingerprint of what their nodes are made from."""
