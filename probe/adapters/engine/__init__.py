"""The adapter of our own engine and its parts."""
