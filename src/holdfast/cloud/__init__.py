"""Implementations of `ports.Cloud`, one package per cloud. No other package names a cloud."""
