"""The state of a running cluster, from watch caches: snapshots, nominations and held capacity."""
