"""The clouds behind the Cloud door, a folder each. Only these rooms know a cloud by name."""
