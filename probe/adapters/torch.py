"""The adapter of PyTorch: a module and its optimizers, watched through torch's own hooks."""

from typing import Any
from weakref import ref

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ...storage.run import Structure
from ..collector import COLLECTORS
from ..errors import NotWatchable
from ..recorder import Recorder
from ..select import choose_sites
from .torch_forward import ForwardTaps
from .torch_memory import Tensor
from .torch_patches import add_listener, remove_listener
from .torch_structure import CallTrace, module_infos, optimizer_infos, parameter_infos
from .torch_view import TorchView


class TorchAdapter:
    """Watches one torch model.

    Args:
        model: The module whose forward is the model's.
        optimizers: Those that step its parameters; none at all means whichever turns out to do so.
    """

    def __init__(self, model: Any, optimizers: tuple[Any, ...] = ()) -> None:
        if not isinstance(model, torch.nn.Module):
            raise NotWatchable(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the module itself")
        for optimizer in optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise NotWatchable(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        self.model = model
        self.view = TorchView(self._report)
        self.framework = f"torch {torch.__version__}"
        self.structure_version = 0
        self._given = optimizers
        self._recorder: Recorder
        self._handles: list[Any] = []
        self._modules: dict[str, Any] = dict(model.named_modules())
        self._trace: CallTrace | None = None
        self._began: set[int] = set()
        self._stepped: set[int] = set()
        self._unscaled: tuple[Any, float] | None = None
        self._scales: Any = None
        self._checks_residue = False
        self._knows_order = False
        self._count = -1
        self._named: dict[str, Any] = {}

    # On and off -------------------------------------------------------------------------------------------------

    def attach(self, recorder: Recorder) -> None:
        """Puts every hook on.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
        """
        self._recorder = recorder
        self._named = dict(self.model.named_parameters())
        sites, names = choose_sites(list(self._modules), list(self._named), recorder.config)
        self.view.add((name, self._named[name]) for name in names)
        self._trace = CallTrace(self._modules, self.model)
        self._taps = ForwardTaps(recorder, lambda: self.model.training)
        self._handles.append(self.model.register_forward_pre_hook(self._forward_begins))
        for site in sites:
            self._handles.append(self._modules[site].register_forward_hook(self._taps.hook(site)))
        for optimizer in self._given:
            self._adopt(optimizer)
        if not self._given:
            self._handles.append(register_optimizer_step_pre_hook(self._perhaps_adopt))
        add_listener(self)

    def detach(self) -> None:
        """Takes every hook off."""
        remove_listener(self)
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._trace is not None:
            self._trace.stop()
            self._taps.forget()
        self._unscaled = None

    def structure(self) -> Structure:
        """Modules in the order of their first calls, all parameters, the optimizers."""
        trace = self._trace or CallTrace({}, None)
        return Structure(
            module_infos(self._modules, trace),
            parameter_infos(self.model.named_parameters(), self.view.optimizers),
            optimizer_infos(self.view.optimizers),
            tuple(name for name, entry in COLLECTORS.items() if entry.columns),
        )

    # Forward and backward ---------------------------------------------------------------------------------------

    def begin_forward(self) -> None:
        """Tells the recorder that a forward of the model begins, if it is one that counts."""
        if self._taps.counts():
            self._recorder.forward_begins()

    def _forward_begins(self, _module: Any, _inputs: Any) -> None:
        self.begin_forward()

    def backward_begins(self, roots: Any) -> None:
        """Takes the loss from where the pass starts, if this model's forward has led there."""
        recorder = self._recorder
        if not recorder.is_open:
            return
        try:
            if self._checks_residue and not recorder.saw_backward and recorder.micro_step == 0:
                self._check_residue()
            recorder.backward_begins(self._loss_of(roots))
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("loss", error)

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remembers what the loss was before it was scaled."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and scaler.is_enabled():
            self._unscaled = (ref(scaled), float(loss.detach()))
            self._scales = scaler.get_scale()

    def _loss_of(self, roots: Any) -> float | None:
        root = roots if isinstance(roots, torch.Tensor) else roots[0] if len(roots) == 1 else None
        if root is None or root.numel() != 1:
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._recorder.loss_scale = self._scales
            return self._unscaled[1]
        return float(root.detach())

    def _check_residue(self) -> None:
        """Notes gradients that are left of earlier steps as new ones are about to be added to them."""
        self._checks_residue = False
        self.view.stepping = None
        held = [one for one in self.view.parameters if one.grad is not None]
        if not any(_is_any_nonzero(one.grad) for one in held):
            return
        rows = self.view.gradients().statistics()[:, 0]
        norms = rows[rows == rows]
        self._recorder.residue(int((norms != 0.0).sum()), float((norms**2).sum() ** 0.5))

    # Steps ------------------------------------------------------------------------------------------------------

    def _perhaps_adopt(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        if any(optimizer is one for one in self.view.optimizers):
            return
        mine = {id(parameter) for parameter in self.view.parameters}
        if any(id(one) in mine for group in optimizer.param_groups for one in group["params"]):
            self._adopt(optimizer)

    def _adopt(self, optimizer: Any) -> None:
        self.view.optimizers.append(optimizer)
        self._handles.append(optimizer.register_step_pre_hook(self._before_step))
        self._handles.append(optimizer.register_step_post_hook(self._after_step))
        self.structure_version += 1

    def _before_step(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        if id(optimizer) in self._began:
            return
        if id(optimizer) in self._stepped:
            self._close_step()
        self._began.add(id(optimizer))
        self._look_for_new_parameters()
        self.view.stepping = optimizer
        self._recorder.before_step(self.view)

    def _after_step(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        self._began.discard(id(optimizer))
        self._stepped.add(id(optimizer))
        if len(self._stepped) == len(self.view.optimizers):
            self._close_step()

    def _close_step(self, *, skipped: bool = False) -> None:
        self._stepped.clear()
        self._began.clear()
        if self._trace is not None and self._trace.is_complete and not self._knows_order:
            self._knows_order = True
            self.structure_version += 1
        self._checks_residue = self._recorder.config.accumulation_steps == 1
        self._taps.forget()
        self._recorder.after_step(self.view, skipped=skipped)

    def step_done(self) -> None:
        """Closes the step of a loop without an optimizer."""
        self.view.stepping = None
        self._recorder.before_step(self.view)
        self._close_step()

    def scaler_stepped(self, optimizer: Any, scaler: Any) -> None:
        """Closes the step as skipped when the scaler has kept the optimizer from stepping."""
        if not self._recorder.is_open or not any(optimizer is one for one in self.view.optimizers or self._given):
            return
        if id(optimizer) in self._stepped:
            return
        self.view.stepping = optimizer
        scale = float(scaler.get_scale())
        self._recorder.loss_scale = scale
        self._recorder.before_step(self.view)
        self._recorder.event("step_skipped", loss_scale=scale)
        self._close_step(skipped=True)

    # Parameters -------------------------------------------------------------------------------------------------

    def _look_for_new_parameters(self) -> None:
        """Parameters that joined after the start, such as those of lazy layers and adapters put in later."""
        count = sum(len(group["params"]) for optimizer in self.view.optimizers for group in optimizer.param_groups)
        if count == self._count:
            return
        self._count = count
        fresh = {name: one for name, one in self.model.named_parameters() if name not in self._named}
        self._named |= fresh
        if fresh:
            _, names = choose_sites([], list(fresh), self._recorder.config, is_late=True)
            self.view.add((name, fresh[name]) for name in names)
            self.structure_version += 1

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)


def _is_any_nonzero(gradient: Tensor) -> bool:
    """Whether a sample of the gradient, its first few thousand values, is other than zero."""
    if gradient.layout is not torch.strided:
        return True
    return bool(gradient.detach().flatten()[:4096].count_nonzero())
