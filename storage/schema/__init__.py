"""The tables, how they are reached, and what is described once for many rows of them."""
