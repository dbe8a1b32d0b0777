"""Scenario files and plan documents: what `holdfast plan` reads and writes."""
