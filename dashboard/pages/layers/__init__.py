"""The page of layer by step."""
