"""`holdfast record`: follows the pods of a cluster and appends their history to a file."""
