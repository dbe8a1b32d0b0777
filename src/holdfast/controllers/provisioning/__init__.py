"""Provisioning: pods that wait for a node become NodeClaims."""
