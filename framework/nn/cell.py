"""A cell: a function with parameters, named children and hooks; its dotted name is a site.

    class MLP(Cell):
        def __init__(self, key):
            super().__init__()
            self.hidden = Dense(784, 512, key=key)      # a child, named by the attribute
            self.scale = Parameter(np.ones(512, np.float32))

        def construct(self, x):
            return relu(self.hidden(x)) * self.scale

Calling the cell runs, in order: forward-pre hooks, `construct`, forward hooks; on the way back: backward-pre hooks
once the gradients of its outputs are complete, backward hooks once those of its inputs are. A cell that never had a
hook pays one comparison.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ClassVar, Self

from numpy.typing import DTypeLike

from ..context import CAPTURE, QUIET, quiet
from ..errors import EngineError
from ..hooks import CHANGES, Handle
from ..tensor import Parameter, Tensor
from .cell_call import CellHooks, CellPrecision, with_bprop

#: What a cell is called with and what it returns: tensors, or tuples of them.
Values = tuple[Any, ...]


class Cell:
    """A parameterised function with named children.

    Assigning a `Parameter` or a `Cell` to an attribute makes it part of this cell under that name; assigning None or
    deleting the attribute takes it out again. A new cell is in evaluation mode, as MindSpore's are; `set_train()`
    changes that for the whole tree.

    Attributes:
        training: Whether layers that behave differently in training (dropout, batch norm) do so.
    """

    training: bool

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "construct" in cls.__dict__ and hasattr(cls, "bprop"):
            cls.construct = with_bprop(cls.construct)  # type: ignore[method-assign]

    def __init__(self) -> None:
        fields = self.__dict__
        fields["_cells"] = {}
        fields["_parameters"] = {}
        fields["_cell_hooks"] = None
        fields["training"] = False

    def construct(self, *inputs: Any, **options: Any) -> Any:  # every cell states its own arguments
        """Return the output; every cell defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no construct(); define what it computes there")

    def __call__(self, *inputs: object, **options: object) -> Any:
        """Return the output of `construct`, with the hooks around it."""
        if self._precision is not None:
            return self._precision.run(self, inputs, options)
        return self._call_construct(inputs, options)

    def _call_construct(self, inputs: Values, options: dict[str, object]) -> Any:
        try:
            capture = CAPTURE.get()
            if capture is not None:
                return capture.call_cell(self, inputs, options)
            if QUIET.get():
                hooks = self._cell_hooks
                if hooks is None:
                    return self.construct(*inputs, **options)
                return hooks.run(self, inputs, options)
            with quiet():
                return (
                    self._cell_hooks.run(self, inputs, options)
                    if self._cell_hooks
                    else self.construct(*inputs, **options)
                )
        except EngineError as error:
            if error.site is None:
                error.at(_running_site(self))
            raise

    # Children and parameters.

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Cell | Parameter):
            self._insert(name, value)
        elif name in self.__dict__.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"'{name}' of {type(self).__name__} is a Parameter and cannot become {type(value).__name__}; "
                    f"use set_data() for new values, a Parameter to exchange it, None to remove it"
                )
            del self._parameters[name]
        else:
            self.__dict__.get("_cells", {}).pop(name, None)
        object.__setattr__(self, name, value)
        CHANGES[0] += 1

    def __delattr__(self, name: str) -> None:
        self._cells.pop(name, None)
        self._parameters.pop(name, None)
        object.__delattr__(self, name)
        CHANGES[0] += 1

    def insert_child_to_cell(self, name: str, cell: "Cell") -> None:
        """Add the cell as the child of that name, which need not be an identifier."""
        setattr(self, name, cell)

    def _insert(self, name: str, value: "Cell | Parameter") -> None:
        if "_cells" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__} got '{name}' before its own start; call super().__init__() first in __init__"
            )
        if not name or "." in name:
            raise ValueError(
                f"a child of {type(self).__name__} cannot be called {name!r}; dots separate names in a site"
            )
        self._cells.pop(name, None)
        self._parameters.pop(name, None)
        if isinstance(value, Parameter):
            self._parameters[name] = value
            value.name = name
            return
        self._cells[name] = value
        for below, parameter in value.parameters_and_names():
            parameter.name = f"{name}.{below}"

    def name_cells(self) -> dict[str, "Cell"]:
        """Return the direct children by name, in order of assignment."""
        return dict(self._cells)

    def cells_and_names(self, prefix: str = "") -> Iterator[tuple[str, "Cell"]]:
        """Return site and cell of this cell and all below it, parents first; a shared cell once, under its first
        name."""
        seen: set[int] = set()
        pending: list[tuple[str, Cell]] = [(prefix, self)]
        while pending:
            site, cell = pending.pop()
            if id(cell) in seen:
                continue
            seen.add(id(cell))
            yield site, cell
            below = [(f"{site}.{name}" if site else name, child) for name, child in cell._cells.items()]
            pending.extend(reversed(below))

    def parameters_and_names(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Return site and parameter of all parameters here and below; a shared one once, under its first name."""
        seen: set[int] = set()
        for site, cell in self.cells_and_names(prefix):
            for name, parameter in cell._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{site}.{name}" if site else name), parameter

    def get_parameters(self) -> Iterator[Parameter]:
        """Return all parameters here and below, each once."""
        return (parameter for _, parameter in self.parameters_and_names())

    def parameters_dict(self) -> dict[str, Parameter]:
        """Return all parameters here and below by site."""
        return dict(self.parameters_and_names())

    def trainable_params(self) -> list[Parameter]:
        """Return the parameters that require a gradient."""
        return [parameter for parameter in self.get_parameters() if parameter.requires_grad]

    def untrainable_params(self) -> list[Parameter]:
        """Return the parameters that require no gradient: frozen ones and running statistics."""
        return [parameter for parameter in self.get_parameters() if not parameter.requires_grad]

    def set_train(self, mode: bool = True) -> Self:
        """Return this cell, it and all below it in training mode (or out of it)."""
        for _, cell in self.cells_and_names():
            cell.training = mode
        return self

    def to_float(self, dtype: DTypeLike | None) -> Self:
        """Return this cell; it and all below it compute in that floating-point dtype, their parameters staying as they
        are.

        None takes it back. For the choice of cells and dtypes see `amp.auto_mixed_precision`.
        """
        for _, cell in self.cells_and_names():
            cell._precision = None if dtype is None else CellPrecision(dtype)
        return self

    # Hooks.

    def register_forward_pre_hook(self, hook: "Callable[[Cell, Values], object]") -> Handle:
        """Return a handle on `hook(cell, inputs)`; inputs it returns take the place of those given."""
        return Handle(self._hooks().forward_pre, hook)

    def register_forward_hook(self, hook: "Callable[[Cell, Values, Any], object]") -> Handle:
        """Return a handle on `hook(cell, inputs, output)`; an output it returns takes the place of the computed one."""
        return Handle(self._hooks().forward, hook)

    def register_backward_pre_hook(self, hook: "Callable[[Cell, tuple[Tensor | None, ...]], object]") -> Handle:
        """Return a handle on `hook(cell, grad_output)`; gradients it returns go through the cell instead.

        Called once for each call of the cell that a backward pass reaches, with one gradient per tensor in the output
        (None for those that got none).
        """
        return Handle(self._hooks().backward_pre, hook)

    def register_backward_hook(
        self, hook: "Callable[[Cell, tuple[Tensor | None, ...], tuple[Tensor | None, ...]], object]"
    ) -> Handle:
        """Return a handle on `hook(cell, grad_input, grad_output)`; gradients it returns go on instead of `grad_input`.

        `grad_input` has one gradient per positional tensor input, None for those that need none. When no input needs
        one (the first layer), the hook is called as soon as `grad_output` is known.
        """
        return Handle(self._hooks().backward, hook)

    def _hooks(self) -> CellHooks:
        if self._cell_hooks is None:
            self.__dict__["_cell_hooks"] = CellHooks()
        hooks: CellHooks = self.__dict__["_cell_hooks"]
        return hooks

    # What it looks like.

    def describe(self) -> str:
        """Return the arguments that tell this cell from others of its class, for `repr`."""
        return ""

    def __repr__(self) -> str:
        head = f"{type(self).__name__}({self.describe()}"
        if not self._cells:
            return f"{head})"
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._cells.items()]
        return head + "\n  " + "\n  ".join(lines) + "\n)"

    #: In which precision it computes, when in another than its parameters'.
    _precision: CellPrecision | None = None
    #: Parameters that no other precision is ever read in: those that the cell itself overwrites.
    _kept_wide: ClassVar[tuple[str, ...]] = ()

    # Assigned past __setattr__, declared for the checkers.
    _cells: dict[str, "Cell"]
    _parameters: dict[str, Parameter]
    _cell_hooks: CellHooks | None


def _running_site(cell: Cell) -> str:
    """Return the name of a cell below the outermost running one, found on the stack: only a failing call pays for
    it."""
    outermost = cell
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is Cell._call_construct.__code__:
            outermost = frame.f_locals["self"]
        frame = frame.f_back
    for site, candidate in outermost.cells_and_names():
        if candidate is cell and site:
            return site
    return type(cell).__name__
