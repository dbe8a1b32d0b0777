"""The wire of AWS, generated from botocore's own service models: requests to parameters, results to answers."""
