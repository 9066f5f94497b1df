"""Attacks on models of digits, ours and other libraries': what `benchmarks/attacks.py` measures."""
