"""`holdfast adopt --check`: what Holdfast would do in its first minute in a cluster, before it does anything.

`dry_run` copies the objects of the cluster into an embedded API server and runs the real controllers there. Their reads
go to the real AWS account; their writes to AWS are recorded and not sent. `report` compares the copy before and after.
"""
