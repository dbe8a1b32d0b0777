"""The modules of `mutants.py`: mutations, the tests that execute a line, and known survivors."""
