"""The fronts of the simulated AWS: two hooks of botocore and an HTTP server, with one endpoint."""
