"""From NodeClaims to instances: the choice of offerings, launch templates, fleets, and their results."""
