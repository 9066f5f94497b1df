"""The page of the model's graph."""
