"""Honest, masked, stochastic and stateful models, and the attacks that know what each of them hides."""
