"""The wall of scalars."""
