"""Thresholds and calibration of a fitted model, by group, from one private histogram."""
