"""The ways into the simulated AWS: two hooks of botocore and an HTTP server, over one endpoint."""
