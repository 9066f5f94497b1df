"""Small random programs: every form of control flow inside every other, over scalars that are tensors or numbers."""

import linecache
from itertools import count
from random import Random

_serial = count()
_NUMBERS = ("0.5", "1.0", "-1.5", "2.0", "3.0", "-0.25")


class Writer:
    """Writes one function of two scalar tensors `a`, `b` and a vector `v`."""

    def __init__(self, seed, depth=3):
        self.random = Random(seed)
        self.lines = ["def program(a, b, v):", "    c = 0.5", "    n = 0", "    k = 1"]
        self.fresh = count()
        self.depth, self.inner = depth, 0
        self.block(1, depth, loop=False)
        self.lines.append("    return a, b, c, n, k")

    @property
    def source(self):
        return "\n".join(self.lines) + "\n"

    def put(self, indent, line):
        self.lines.append("    " * indent + line)

    def pick(self, *options):
        return self.random.choice(options)

    def scalar(self):
        return self.pick("a", "b", "c", "n", "k", "v[0]", "v[-1]", self.pick(*_NUMBERS))

    def expression(self):
        form = self.pick("{0} + {1}", "{0} - {1}", "{0} * {1} * 0.5", "({0} if {2} else {1})", "-{0}", "abs({0})")
        return form.format(self.scalar(), self.scalar(), self.condition())

    def condition(self):
        simple = f"{self.scalar()} {self.pick('<', '>', '<=', '>=')} {self.scalar()}"
        other = f"{self.pick('a', 'b', 'c')} {self.pick('<', '>')} {self.pick(*_NUMBERS)}"
        return self.pick(
            simple, other, other, f"{simple} and {other}", f"{other} or {simple}", f"not {other}", f"-2 < {simple}"
        )

    def assignment(self, indent):
        name = self.pick("a", "b", "c", "c")
        # Tensors stay tensors: what is a tensor on one path and a number on the other has another type in Python.
        whole = {"a": "a * 0 + {}", "b": "b * 0 + {}", "c": "{}"}[name]
        if self.random.random() < 0.2:
            self.put(indent, self.pick("n += 1", "k = k + n", "k *= 2", "n = k - n"))
        elif self.random.random() < 0.2:
            self.put(indent, f"a, b = b, {'a * 0 + ' + self.expression()}")
        else:
            self.put(indent, f"{name} = {whole.format(self.expression())}")

    def block(self, indent, depth, loop):
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, loop)

    def statement(self, indent, depth, loop):
        kinds = ["assign"] * 3
        if depth:
            kinds += ["if", "if", "ifelse", "while", "for_range", "for_tensor", "for_traced", "call", "match"]
        if depth < self.depth:
            kinds.append("return")
        if loop:
            kinds += ["break", "continue"]
        getattr(self, "_" + self.pick(*kinds))(indent, depth, loop)

    def _assign(self, indent, depth, loop):
        self.assignment(indent)

    def _match(self, indent, depth, loop):
        self.put(indent, f"match {self.pick('n', 'k', 'n + k, k', '(n, k) if v[0] > 0 else (k, n)')}:")
        for pattern in ("0 | (0, _)", "1", "(x, y) if x > y", "int(x) if x > 3", "_"):
            self.put(indent + 1, f"case {pattern}:")
            self.block(indent + 2, depth - 1, loop)

    def _if(self, indent, depth, loop):
        self.put(indent, f"if {self.condition()}:")
        self.block(indent + 1, depth - 1, loop)

    def _ifelse(self, indent, depth, loop):
        self._if(indent, depth, loop)
        if self.random.random() < 0.3:
            self.put(indent, f"elif {self.condition()}:")
            self.block(indent + 1, depth - 1, loop)
        self.put(indent, "else:")
        self.block(indent + 1, depth - 1, loop)

    def _orelse(self, indent, depth, loop):
        if self.random.random() < 0.2:
            self.put(indent, "else:")
            self.block(indent + 1, depth - 1, loop)

    def _while(self, indent, depth, loop):
        name = f"w{next(self.fresh)}"
        self.put(indent, f"{name} = 0")
        forms = (f"while {name} < 3 and ({self.condition()}):", f"while {self.condition()}:", "while True:")
        form = self.pick(*forms)
        self.put(indent, form)
        self.put(indent + 1, f"{name} += 1")
        if form is not forms[0]:
            self.put(indent + 1, f"if v[0] * 0 + {name} > 3: break")
        self.block(indent + 1, depth - 1, loop=True)
        self._orelse(indent, depth, loop)

    def _for_range(self, indent, depth, loop):
        self.put(indent, f"for i{next(self.fresh)} in range({self.random.randint(1, 3)}):")
        self.block(indent + 1, depth - 1, loop=True)
        self._orelse(indent, depth, loop)

    def _for_tensor(self, indent, depth, loop):
        name = f"x{next(self.fresh)}"
        self.put(indent, self.pick(f"for {name} in v:", f"for _, {name} in enumerate(v):"))
        self.put(indent + 1, f"c = c * 0.5 + {name}")
        self.block(indent + 1, depth - 1, loop=True)
        self._orelse(indent, depth, loop)

    def _for_traced(self, indent, depth, loop):
        name = f"j{next(self.fresh)}"
        self.put(indent, f"for {name} in range(int(v.sum()) % 3 + 1):")
        self.put(indent + 1, f"a = a + {name}")
        self.block(indent + 1, depth - 1, loop=True)
        self._orelse(indent, depth, loop)

    def _call(self, indent, depth, loop):
        name = f"f{next(self.fresh)}"
        self.put(indent, f"def {name}(a, c, b=1.5, n=0, k=1):")
        self.inner += 1
        self.block(indent + 1, depth - 1, loop=False)
        self.inner -= 1
        self.put(indent + 1, "return a * 0.5 + c")
        self.put(indent, f"c = {name}(a, {self.pick('c', 'k', 'v[1]')})")

    def _return(self, indent, depth, loop):
        value = "a + 1.0" if self.inner else "a, b, c, n, k"
        self.put(indent, f"return {value}")

    def _break(self, indent, depth, loop):
        self.put(indent, "break")

    def _continue(self, indent, depth, loop):
        self.put(indent, "continue")


def function_of(source, name="program"):
    """The function that a text defines; its source can be found again."""
    file = f"<program {next(_serial)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {}
    exec(compile(source, file, "exec"), space)
    return space[name]


def random_program(seed):
    """A function and its text."""
    source = Writer(seed).source
    return function_of(source), source
