"""Trainings that someone has broken, their healthy twins, and what a diagnosis says of each of them."""
