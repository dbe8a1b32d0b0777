"""The cluster as it is now, kept from watch caches: snapshots, nominations and held capacity."""
