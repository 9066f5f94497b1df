"""Explains hangs: which ranks wait for which collective, which ranks are missing, and what those do instead."""
