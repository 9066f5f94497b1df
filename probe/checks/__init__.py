"""Checks that call a copy of a torch model, or read the graph of its loss, and state what they verified."""
