"""The contract of every attack: its base class, the table of attacks, checked inputs, and results."""
