"""Does a slow copy of a network follow it, as a target network or a teacher should?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .check_result import CheckResult, broken, held

FOLLOWS = "copy_follows_its_network"
_CLAIM = "the copy {copy} of {network} follows it, and is called"
#: Elements of each parameter, and parameters, that are compared. Our choice: a network moves as a whole.
_ELEMENTS, _PARAMETERS = 64, 32
#: Relative distance within which one network is a copy of another; two random ones differ by 1.4.
_NEAR: Final = 0.3
#: Share of its network's way below which a copy that moves hardly does so: an average with the usual rate of 0.005 has
#: gone 37 % of the way after 200 steps, one with 0.0001 has gone 1 %.
_HARDLY: Final = 0.02
#: The same of an average that is for the evaluation, as the training ends: with a straight way it still has two thirds
#: of the start. Our choice.
_HARDLY_AT_ALL: Final = 0.2
#: How many times as far as its network ever did a copy has gone that does not follow it. Our choice: an average of what
#: the network was goes no farther than that did.
_FAR: Final = 3.0
#: Relative distance that the network must have moved, so that anything can be told.
_MOVED: Final = 1e-3
#: Looks at which a copy must be the network itself, and the look from which it should have moved.
_ALIKE, _LATE = 3, 3
#: Looks at which a copy that is kept up to date must not have been called.
_UNASKED: Final = 3
#: Steps from which on a copy that never moved is told as the training ends. Our choice.
LONG: Final = 200
#: Relative error within which all elements were moved by one share of the way, and within which they are a multiple.
_SAME, _MULTIPLE = 1e-2, 1e-3


def sample_of(network: torch.nn.Module) -> torch.Tensor:
    """Return some elements of the parameters as one vector of float64, always the same ones."""
    parts = [parameter.detach().reshape(-1)[:_ELEMENTS] for parameter in network.parameters()][:_PARAMETERS]
    return torch.cat([part.double().cpu() for part in parts])


def statistics_of(network: torch.nn.Module) -> torch.Tensor | None:
    """Return the running means of the network's batch norms as one vector of float64; None where it has none."""
    norms = [one for one in network.modules() if isinstance(one, _BatchNorm) and one.running_mean is not None]
    return torch.cat([norm.running_mean.double().cpu() for norm in norms]) if norms else None


def pull_towards(before: torch.Tensor, after: torch.Tensor, copy: torch.Tensor) -> float | None:
    """Return the share of the way to the copy by which a network was moved; None if it did not move, or elsewhere."""
    moved, way = after - before, copy - before
    counted = way.abs() > 1e-3 * way.abs().max()
    if not bool(moved.any()) or int(counted.sum()) < _ELEMENTS // 4:
        return None
    shares = moved[counted] / way[counted]
    share = float(shares.median())
    is_one_share = bool(((shares - share).abs() <= _SAME * abs(share) + 1e-5).double().mean() > 0.9)
    return share if is_one_share and 0.0 < share < 1.0 else None


def multiple_of(before: torch.Tensor, after: torch.Tensor) -> float | None:
    """Return the number that all elements were multiplied by, as where a copy is averaged with itself; None if none."""
    size = float(before.square().sum())
    factor = float((before * after).sum()) / size if size else 1.0
    is_multiple = float((after - factor * before).norm()) <= _MULTIPLE * abs(1.0 - factor) * size**0.5
    return factor if is_multiple and abs(1.0 - factor) > _SAME else None


def mostly_the_start(
    name: str, first: torch.Tensor, trained: torch.Tensor, used: torch.Tensor, steps: int
) -> CheckResult | None:
    """Return that a network is evaluated with weights that are mostly those of its start, as an average may leave them.

    The very first weights are left out: they are put back where another training begins.

    Args:
        name: The network's.
        first, trained, used: Samples of it at the start, as so many steps had come to, and as it is evaluated.
    """
    if trained.shape != first.shape or used.shape != first.shape:
        return None
    gone, way = float((used - first).norm()), float((trained - first).norm())
    if not 0.0 < gone < _HARDLY_AT_ALL * way or way < _MOVED * float(first.norm()):
        return None
    words = f"{name} is evaluated with weights that have gone {gone / way:.1%} of the way that {steps} steps have gone"
    claim = f"{name} is evaluated with what it has learned"
    return broken(FOLLOWS, claim, words, subject=name, averaged=gone / way, ended=1.0)


@dataclass(slots=True)
class CopyHistory:
    """What is known of a copy and of the network that it follows.

    Args:
        copy, network: Their names.
        first_copy, first_network: Samples of their first look.
        calls: Looks at which the copy was called without gradients in the training.
        unasked: Looks at which it was not called at all.
        farthest: How far the network had gone, at the look at which it was farthest.
        alike: Looks at which both were the same as the step began.
        gone: How far the copy had gone at the newest look.
        first_statistics: Running means of the batch norms of both at their first look, once they are known.
        pulled: Shares of the way by which the network was moved to the copy between two steps; 1 where it was put back.
    """

    copy: str
    network: str
    first_copy: torch.Tensor
    first_network: torch.Tensor
    looks: int = 0
    calls: int = 0
    unasked: int = 0
    alike: int = 0
    farthest: float = 0.0
    gone: float = 0.0
    has_parted: bool = False
    first_statistics: tuple[torch.Tensor, torch.Tensor] | None = None
    pulled: list[float] = field(default_factory=list)

    def look(
        self,
        before: torch.Tensor,
        begun: tuple[torch.Tensor, torch.Tensor],
        *,
        is_called: bool,
        is_asked: bool,
    ) -> CheckResult | None:
        """Take a look at both, at a step that has begun; return what all looks tell.

        Args:
            before: The network as the step before had ended.
            begun: The copy and the network as this step began.
            is_called: Whether the training called the copy without gradients in this step.
            is_asked: Whether it called the copy at all.
        """
        copy, network = begun
        self.looks += 1
        self.calls += is_called
        self.unasked += not is_asked
        size = float(self.first_network.norm()) + 1e-12
        way = float((network - self.first_network).norm())
        gone = self.gone = float((copy - self.first_copy).norm())
        self.alike += bool(torch.equal(copy, network)) and is_called
        self.farthest = max(self.farthest, way)
        share = pull_towards(before, network, copy)
        if gone == 0.0 and share is not None:
            self.pulled.append(share)
        elif gone == 0.0 and self.has_parted and is_called and torch.equal(copy, network):
            self.pulled += [1.0, 1.0]
        self.has_parted |= not torch.equal(copy, network)
        if self.unasked == self.looks >= _UNASKED and gone > 0.0:
            words = f"{self.copy} is kept near {self.network}, and no part of it was called in {self.looks} steps"
            return broken(FOLLOWS, self._claim, words, subject=self.copy, unasked=float(self.looks))
        asked = self.looks - self.unasked  # optimizers may take turns, and one of their steps not ask it
        if asked < 2 or self.calls < asked or (way < _MOVED * size and not self.pulled):
            return None
        numbers = {"moved": gone, "network_moved": way, "looks": float(self.looks)}
        multiple = multiple_of(self.first_copy, copy) if multiple_of(self.first_network, network) is None else None
        return self._told(gone, way, multiple, numbers)

    def look_at_statistics(self, copy: torch.Tensor | None, network: torch.Tensor | None) -> CheckResult | None:
        """Return that a copy follows its network, and its running means are still those that it was made with.

        Args:
            copy, network: Running means of both now.
        """
        if copy is None or network is None or copy.shape != network.shape:
            return None
        self.first_statistics = self.first_statistics or (copy, network)
        return self.statistics_at_the_end(copy, network) if self.looks >= _LATE else None

    def statistics_at_the_end(self, copy: torch.Tensor | None, network: torch.Tensor | None) -> CheckResult | None:
        """Return the same as the training ends, of a copy whose weights have moved since they were first seen."""
        if copy is None or network is None or self.first_statistics is None or copy.shape != network.shape:
            return None
        first_copy, first_network = self.first_statistics
        is_left = torch.equal(copy, first_copy) and not torch.equal(network, first_network)
        if not is_left or self.gone == 0.0:
            return None
        words = (
            f"the weights of {self.copy} follow those of {self.network}, and the running statistics of its batch norms "
            f"are still those of the first look"
        )
        return broken(FOLLOWS, self._claim, words, subject=self.copy, statistics=float(copy.numel()))

    @property
    def lags(self) -> bool:
        """Whether the copy is called and differs from its network as steps begin."""
        return self.looks > 1 and self.has_parted and self.calls > 0

    def at_the_end(self, copy: torch.Tensor, network: torch.Tensor, steps: int) -> CheckResult | None:
        """Return that a copy has not moved until the training's end, or is an average that has hardly done so.

        Args:
            copy, network: Samples of both as the training ends, after so many steps.
        """
        gone = float((copy - self.first_copy).norm())
        way = float((network - self.first_network).norm())
        claim = self._claim
        if 0.0 < gone < _HARDLY_AT_ALL * way and self.unasked == self.looks and steps >= LONG:
            words = f"{self.copy}, the average of {self.network}, has gone {gone / way:.1%} of its way in {steps} steps"
            return broken(FOLLOWS, claim, words, subject=self.copy, averaged=gone / way, ended=1.0)
        is_used = self.calls > 0 and self.calls == self.looks - self.unasked
        if gone > 0.0 or self.pulled or not is_used or steps < LONG or way < _MOVED * float(self.first_network.norm()):
            return None
        words = f"{self.copy}, a copy of {self.network}, has not moved in {steps} steps, until the training ended"
        numbers = {"never": 1.0, "ended": 1.0, "moved": gone, "network_moved": way}
        return broken(FOLLOWS, claim, words, subject=self.copy, **numbers)

    @property
    def _claim(self) -> str:
        return _CLAIM.format(copy=self.copy, network=self.network)

    def _told(self, gone: float, way: float, multiple: float | None, numbers: dict[str, float]) -> CheckResult | None:
        claim = self._claim
        if self.looks >= _LATE and multiple is not None:
            words = f"each weight of {self.copy} has become {multiple:.3g} times what it was at first"
            return broken(FOLLOWS, claim, words, subject=self.copy, astray=multiple, **numbers)
        if len(self.pulled) > 1:
            words = (
                f"between two steps {self.network} was moved by {self.pulled[-1]:.3g} of the way to {self.copy}, its "
                f"copy, which itself has not moved"
            )
            return broken(FOLLOWS, claim, words, subject=self.copy, backwards=self.pulled[-1], **numbers)
        if self.alike >= _ALIKE and self.alike == self.looks - self.unasked:
            words = f"as a step began, {self.copy} was {self.network} itself, at each of {self.alike} looks"
            return broken(FOLLOWS, claim, words, subject=self.copy, alike=1.0, **numbers)
        if self.looks >= _LATE and gone == 0.0:
            words = f"{self.copy}, a copy of {self.network}, has not moved since it was first seen"
            return broken(FOLLOWS, claim, words, subject=self.copy, never=1.0, **numbers)
        if self.looks >= _LATE and gone > _FAR * self.farthest > 0.0:
            words = (
                f"{self.copy}, which was {self.network} at first, has gone {gone / self.farthest:.1f} times as far as "
                f"that ever has: no average of what {self.network} was goes farther than it"
            )
            return broken(FOLLOWS, claim, words, subject=self.copy, astray=gone / self.farthest, **numbers)
        if self.looks >= _LATE and gone < _HARDLY * way:
            words = f"{self.copy}, which follows {self.network}, has gone {gone / way:.1%} of its way so far"
            return broken(FOLLOWS, claim, words, subject=self.copy, hardly=gone / way, **numbers)
        return held(FOLLOWS, claim, subject=self.copy, **numbers) if self.looks >= _LATE else None


def pairs_of(copies: Sequence[torch.nn.Module], networks: Sequence[torch.nn.Module]) -> Iterator[tuple[int, int]]:
    """Yield which copy has the parameters, by name and shape, of which network: of several the nearest one."""
    numbers: dict[tuple[tuple[str, torch.Size], ...], list[int]] = {}
    for at, network in enumerate(networks):
        numbers.setdefault(shapes_of(network), []).append(at)
    for number, copy in enumerate(copies):
        alike = numbers.get(shapes_of(copy), [])
        if not alike or all(parameter.dim() < 2 for parameter in copy.parameters()):
            continue  # a norm is the same as every other as it begins
        mine = sample_of(copy)
        distances = {at: float((sample_of(networks[at]) - mine).norm()) for at in alike}
        nearest = min(alike, key=distances.__getitem__)
        if distances[nearest] < _NEAR * float(mine.norm()):
            yield number, nearest


def shapes_of(network: torch.nn.Module) -> tuple[tuple[str, torch.Size], ...]:
    """Return name and shape of each parameter: networks in which these agree can be copies of each other."""
    return tuple((name, parameter.shape) for name, parameter in network.named_parameters())
