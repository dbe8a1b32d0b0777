"""The embedded Kubernetes API server: one store with two fronts.

`server.ApiServer` handles requests in process, without a socket or a thread, so that it runs in virtual time. `http`
serves the same object on loopback with TLS, for kubectl and every other client. Both return the same bytes.
docs/fidelity-kube.md lists the differences from a real kube-apiserver, with reasons.
"""
