"""Composition: settings, the adapters behind the ports, and the controllers as one running program."""
