"""The engine controllers run on: work queue, watch cache, backoff, lease, metrics."""
