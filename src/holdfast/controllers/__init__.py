"""The shell: observe, decide, act, report. A folder per resource, a file per concern.

Controllers ask `core` what to do and do it through `ports`. They never import each
other, nor any adapter (`cloud`, `kube`, `sim`).
"""
