"""solve(request) -> plan: which pods go on which existing or new nodes, and why."""
