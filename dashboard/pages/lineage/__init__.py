"""The page of lineage."""
