"""Stores of every database: a folder of run files, and a PostgreSQL schema."""
