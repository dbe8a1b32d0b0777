"""The placement kernel: what runs for every pod, written for a compiler: plain loops over arrays."""
