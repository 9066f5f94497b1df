"""Capture from bytecode: frames are interpreted on traced tensors; where that ends, plain Python takes over.

frame           functions on their way: variables, stack, place
operations      what each instruction of CPython 3.11 does; later: what 3.12 and 3.13 change
calls           which calls are gone into, made natively, or end the graph
concrete        frames on real values, one instruction at a time
interpreter     frames on traced tensors: a graph
entry           a function without a break is captured as by any other mode
split           a function with breaks: compiled pieces, and the instructions between them
"""

from .entry import capture_bytecode

__all__ = ["capture_bytecode"]
