"""Holdfast: a node autoscaler for Kubernetes that fills reserved capacity first.

docs/architecture.md lists the packages and which may import which.
"""
