"""Kinds of Kubernetes: their fields, defaults, merge rules, tables and errors."""
