"""Writes the plan: NodeClaims, placed pods, and the reasons for everything else."""
