"""Signs that several rules read: a batch that brings NaN, a step that was ordinary, updates that are too large."""
