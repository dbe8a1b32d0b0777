"""What scripts/generate_data.py is made of: the pinned source, and how it becomes our types and prices."""
