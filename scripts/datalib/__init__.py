"""The modules of scripts/generate_data.py: the pinned source of instance types, and their conversion."""
