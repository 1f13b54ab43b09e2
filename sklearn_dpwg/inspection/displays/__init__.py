"""Pictures of group metrics, group weights and privacy."""
