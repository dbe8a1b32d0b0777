"""NodeClaims: launch, registration, initialization, disruption conditions, reboot, termination and garbage
collection."""
