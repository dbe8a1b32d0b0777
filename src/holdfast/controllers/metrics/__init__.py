"""Metrics that are computed from the caches for a scrape, by the leader (ADR 0056)."""
