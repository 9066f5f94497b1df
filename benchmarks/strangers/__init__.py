"""Trainings of 19 kinds, and 88 faults in them, by authors who had seen neither rules nor benchmarks of ours."""
