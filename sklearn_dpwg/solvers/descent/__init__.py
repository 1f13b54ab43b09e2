"""Noisy descent on the weights while the groups are weighted anew: MGR, AGS and GDA."""
