"""Decisions: values in, values out, with reasons.

No I/O, no clock, no dice, no log; `now` is an argument. Core knows only `model`, and no cloud by
name: whatever is special to one cloud arrives as a value from `ports.Cloud`.
"""
