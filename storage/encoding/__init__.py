"""Numbers and nouns as compressed bytes and back: each value as narrow as it can be kept exactly."""
