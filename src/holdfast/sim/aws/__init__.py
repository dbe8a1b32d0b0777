"""The simulated AWS: services, their wire protocols, and the dispatch of requests."""
