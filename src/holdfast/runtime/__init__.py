"""The engine controllers run on: watch caches, work queues, the leader's lease, metrics, events, health.

`manager.Manager` puts them together. Nothing here knows what a NodeClaim is for: kinds come in as types, decisions
are the reconcilers'.
"""
