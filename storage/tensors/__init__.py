"""Whole tensors beside a run."""
