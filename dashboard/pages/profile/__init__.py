"""The page of the profile."""
