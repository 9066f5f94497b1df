"""Functions that call themselves and each other."""

from tests.framework.compiler.source.cases.table import SCALARS, case, s


@case()
def fibonacci_of_tensors(x):
    a, b = x, x + 1
    n = 0
    while b.sum() < 30 and n < 8:
        a, b = b, a + b
        n += 1
    return a, b, n


@case((s(5.0),), (s(1.0),), (s(0.0),), (s(9.0),))
def factorial(n):
    return s(1.0) * 1 if n <= 1 else n * factorial(n - 1)


@case((s(5.0),), (s(1.0),), (s(12.0),))
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@case((s(5.0),), (s(4.0),), (s(0.0),))
def mutual_recursion(n):
    def even(n):
        return n * 0 + 1 if n < 1 else odd(n - 1)

    def odd(n):
        return n * 0 if n < 1 else even(n - 1)

    return even(n)


@case((s(5.0),), (s(40.0),), (s(300.0),))
def recursion_with_counter(x, depth=0):
    if x < 10:
        return x, depth
    return recursion_with_counter(x / 2, depth + 1)


@case()
def static_recursion(x, depth=4):
    return x if depth == 0 else static_recursion(x * 2, depth - 1)


@case(*SCALARS)
def short_circuit_recursion(n):
    return n <= 0 or short_circuit_recursion(n - 1)
