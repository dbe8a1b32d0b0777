"""Holdfast: a node autoscaler for Kubernetes that uses every slot paid for in advance.

docs/architecture.md has the map: the rooms below this one, and who may import whom.
"""
