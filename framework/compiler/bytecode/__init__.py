"""Capture from bytecode: frames are interpreted on traced tensors; where that ends, plain Python takes over.

bytecode_capture      the entry: a function without a break is captured as by any other mode
bytecode_frame        running functions: variables, stack, position
instructions          what each instruction of CPython 3.11 does; newer_instructions: what 3.12 and 3.13 change
concrete              frames on real values, one instruction at a time; which calls are entered, made natively, or end
                      the graph
bytecode_interpreter  frames on traced tensors: a graph
pieces                a function with breaks: compiled pieces, and the instructions between them
"""

from .bytecode_capture import capture_bytecode

__all__ = ["capture_bytecode"]
