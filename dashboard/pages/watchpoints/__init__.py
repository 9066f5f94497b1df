"""The page of watchpoints."""
