"""Decisions: pure functions over values, which return what to do and why.

No I/O, no clock, no random numbers, no log; `now` is an argument. This package imports only `model` and names no cloud:
what is particular to a cloud is a value from `ports.Cloud`.
"""
