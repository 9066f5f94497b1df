"""Indicators that several rules share: a batch with NaN, an ordinary step, updates that are too large."""
