"""Nodes: how one is emptied and ended."""
