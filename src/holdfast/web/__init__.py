"""The dashboard: draws snapshots, plans and their reasons. It decides nothing."""
