"""The states of a NodeClaim and the legal moves between them, as a table."""
