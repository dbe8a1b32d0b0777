"""Simulations: the real program with a simulated cluster and a simulated AWS in virtual time, and what it would cost."""
