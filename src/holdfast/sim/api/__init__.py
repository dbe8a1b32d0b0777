"""The embedded Kubernetes API server: one store, and two fronts over it.

`server.ApiServer` answers requests in process, with no socket and no thread, so that it runs under virtual time;
`http` puts the same object on loopback, with TLS, for kubectl and every other client. Both answer byte for byte the
same. What differs from a real kube-apiserver, and why, is in docs/fidelity-kube.md.
"""
