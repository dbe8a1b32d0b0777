"""The states of a NodeClaim with their legal transitions, and the registration health of a NodePool."""
