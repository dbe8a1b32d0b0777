"""Launches instances for NodeClaims: selects offerings, creates launch templates and fleets, reads the results."""
