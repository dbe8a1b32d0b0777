"""The AWS half of `holdfast doctor`: reads the account as `holdfast run` would, and checks what was read.

`account_reading` reads, with `read_only_profiles`, `dry_runs` and `queue_reading`; the modules named `*_checks` are pure.
Nothing is changed: calls that are no reads are dry runs.
"""
