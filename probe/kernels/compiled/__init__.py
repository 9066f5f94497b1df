"""The kernels' source: functions of numbers and addresses that numba compiles, imported by `compiler.py` alone.

A process that trains needs none of this: `machine_code.py` loads what was compiled before, without numba.
"""
