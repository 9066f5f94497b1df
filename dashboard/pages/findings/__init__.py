"""The page of findings."""
