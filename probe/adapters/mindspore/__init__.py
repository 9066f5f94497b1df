"""The adapter of MindSpore and its parts."""
