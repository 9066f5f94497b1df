"""The adapter of PyTorch and its parts."""
