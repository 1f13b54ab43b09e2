"""Noise itself: the source that adds it and refuses what is not paid for, and its samplers."""
