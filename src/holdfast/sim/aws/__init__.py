"""The simulated AWS at the wire: the services behind it, and how a request finds the one it is for."""
