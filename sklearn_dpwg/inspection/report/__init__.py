"""The page of an audit and the card of a model."""
