"""The controller runtime: watch caches, work queues, leader election, metrics, events and health probes.

Like controller-runtime, it is generic: `manager.Manager` runs any reconcilers on any kinds.
"""
