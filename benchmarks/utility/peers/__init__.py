"""The peers: what else a user could run, at one setting of their parameters."""
