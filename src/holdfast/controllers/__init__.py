"""Controllers: each reads the cluster, calls a decision of `core`, and carries it out through `ports`.

There is a folder for each resource. No controller imports another one, nor an adapter (`cloud`, `kube`, `sim`).
"""
