"""The hooks, the same for all frameworks: each writes what it sees into the rows of the recorder."""
