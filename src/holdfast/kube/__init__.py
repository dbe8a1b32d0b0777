"""The Kubernetes client behind the Kube door.

`client.Client` builds requests, decodes answers, retries and maps errors. It stands on a `transport.Transport`,
which has one call: `http` puts it on a socket, and the embedded API server answers it in process, so that both
worlds run the same client. `kubeconfig` and `incluster` find out where the server is and who we are.
"""
