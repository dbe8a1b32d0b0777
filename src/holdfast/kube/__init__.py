"""The Kubernetes client behind the Kube door."""
