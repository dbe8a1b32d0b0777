"""What `mutants.py` is made of: the mutations, the tests that execute a line, the runs, the known survivors."""
