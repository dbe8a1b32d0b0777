"""`holdfast doctor`: what is missing or wrong in the cluster and in the account before `holdfast run` starts.

`cluster_reading` reads from the API server, `cloud.aws.doctor` from AWS; the other modules are checks: pure functions
from what was read to results. `diagnosis` connects them. Nothing is changed.
"""
