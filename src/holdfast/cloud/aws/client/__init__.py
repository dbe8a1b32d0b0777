"""Calls to AWS: clients, retries, rates, error codes, and answers that are checked before use."""
