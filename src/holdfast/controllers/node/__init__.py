"""Nodes: drain and termination."""
