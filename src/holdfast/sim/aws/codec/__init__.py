"""The wire protocols of AWS, generated from botocore's service models: requests to parameters, results to responses."""
