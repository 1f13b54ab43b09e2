"""Definitions of tasks, by subject."""
