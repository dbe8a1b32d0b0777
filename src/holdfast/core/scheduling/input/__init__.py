"""Reads a request into arrays: pods by class, instance types by column, and the constraints between them."""
