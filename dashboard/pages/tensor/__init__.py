"""The page of one tensor."""
