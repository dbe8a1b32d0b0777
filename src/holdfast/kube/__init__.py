"""The Kubernetes client: the adapter of the Kube port.

`client.Client` builds requests, decodes responses, retries and maps errors. It sends them through a
`transport.Transport`: `http` uses a socket, the embedded API server responds in process, so production and simulation
run the same client. `kubeconfig` and `incluster` read the server's address and the credentials.
"""
