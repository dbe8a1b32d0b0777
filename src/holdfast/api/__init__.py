"""The wire: Kubernetes and Karpenter objects as msgspec Structs, the CRDs, and their validation.

A wire type says what is on the wire and nothing more. The room knows nobody: `state` turns these
into the values of `model`.
"""
