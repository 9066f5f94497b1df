"""The parts that several pages are made of."""
