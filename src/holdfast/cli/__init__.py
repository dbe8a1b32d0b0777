"""The command line: a file per command; each parses, calls, prints."""
