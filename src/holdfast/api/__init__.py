"""Wire types: Kubernetes and Karpenter objects as msgspec Structs, the CRDs, and their validation.

Wire types only describe the wire format, and this package imports no `model`: `state` converts wire types to the values
of `model`.
"""
