"""Converts objects of the API server into the values that decisions use, and back."""
