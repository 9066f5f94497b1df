"""The flight recorder: what the last steps showed is kept in memory, and stored once something is wrong."""
