"""Searches for a packing: first fit, then cheaper ones, with repairs for pods that were left out."""
