"""Requests over HTTP: routing, verbs, watches, patches, discovery and faults."""
