"""The AWS client: calls, retries, rate limits, error codes, and validation of responses."""
