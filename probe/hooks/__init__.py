"""The hooks themselves, the same for all frameworks: each puts what it sees into the rows of the recorder."""
