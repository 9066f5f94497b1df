"""LambdaRank on lists of search results with graded judgements."""
from __future__ import annotations

import math
import sys
from typing import Iterator, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

LONGEST, TOP = 16, 10


class Lists(NamedTuple):
    features: Tensor  # (Q, LONGEST, 14)
    grades: Tensor    # (Q, LONGEST), 0..4
    mask: Tensor      # (Q, LONGEST), True where there is a document


def make_lists(n: int, rng: np.random.Generator, truth: dict[str, np.ndarray]) -> Lists:
    """A query is a direction of taste; a document's worth depends on how it lies to the query. Grades are given
    within a query; queries differ in how easily their judges give them."""
    d = 6
    query = rng.normal(size=(n, 1, d))
    doc = rng.normal(size=(n, LONGEST, d))
    match = query * doc
    worth = np.tanh(match @ truth["a"]).sum(-1) + 0.8 * np.abs(doc @ truth["b"]) + 0.25 * rng.normal(size=(n, LONGEST))
    length = rng.integers(6, LONGEST + 1, n)
    mask = np.arange(LONGEST) < length[:, None]
    worth = np.where(mask, worth, np.nan)
    z = (worth - np.nanmean(worth, 1, keepdims=True)) / np.nanstd(worth, 1, keepdims=True)
    generous = rng.uniform(-1.2, 0.8, (n, 1))
    grades = np.digitize(np.nan_to_num(z + generous, nan=-9), [0.0, 0.7, 1.3, 1.9])
    clicks = np.log1p(rng.poisson(3, (n, LONGEST, 1)) + 0.0)
    feats = np.concatenate([match, doc, np.broadcast_to(generous[:, None] + 0.5 * rng.normal(size=(n, 1, 1)), (n, LONGEST, 1)), clicks], -1)
    feats = np.where(mask[..., None], feats, 0)
    return Lists(torch.tensor(feats, dtype=torch.float32), torch.tensor(grades), torch.tensor(mask))


class Scorer(nn.Module):
    def __init__(self, n_in: int = 14, width: int = 48) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.out = nn.Linear(width, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.out(self.body(features)).squeeze(-1)


def gains(grades: Tensor) -> Tensor:
    return 2.0 ** grades - 1


def ranks(score: Tensor, mask: Tensor) -> Tensor:
    """Place of each document, 0 first."""
    order = score.masked_fill(~mask, -math.inf).argsort(dim=1, descending=True)
    return order.argsort(dim=1)


def discount(place: Tensor) -> Tensor:
    return torch.where(place < TOP, 1 / torch.log2(place + 2.0), 0.0)


def ideal(grades: Tensor) -> Tensor:
    best = gains(grades).sort(dim=1, descending=True).values[:, :TOP]
    return (best * discount(torch.arange(best.shape[1]))).sum(1)


def lambda_loss(score: Tensor, lists: Lists) -> Tensor:
    """Pairwise logistic loss, each pair weighted with what its exchange would change of NDCG."""
    g = gains(lists.grades)
    place = ranks(score.detach(), lists.mask)
    dcg = discount(place)
    delta = (g[:, :, None] - g[:, None, :]).abs() * (dcg[:, :, None] - dcg[:, None, :]).abs()
    delta = delta / ideal(lists.grades).clamp(min=1)[:, None, None]
    better = lists.grades[:, :, None] > lists.grades[:, None, :]
    pairs = better & lists.mask[:, :, None] & lists.mask[:, None, :]
    gap = score[:, :, None] - score[:, None, :]
    return (nn.functional.softplus(-gap) * delta * pairs).sum() / len(score)


@torch.no_grad()
def ndcg(model: Scorer, lists: Lists) -> float:
    model.eval()
    place = ranks(model(lists.features), lists.mask)
    got = (gains(lists.grades) * discount(place)).sum(1)
    top = ideal(lists.grades)
    model.train()
    return (got[top > 0] / top[top > 0]).mean().item()


def batches(lists: Lists, size: int) -> Iterator[Lists]:
    order = torch.randperm(len(lists.grades))
    for rows in order.split(size):
        # documents come in a new order every time
        turn = torch.rand(len(rows), LONGEST).argsort(1)
        grades = lists.grades[rows].gather(1, turn)
        mask = lists.mask[rows].gather(1, turn)
        features = lists.features[rows].gather(1, turn[..., None].expand(-1, -1, 14))
        yield Lists(features, grades, mask)


def main(seed: int = 0, epochs: int = 8) -> None:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    truth = {"a": rng.normal(size=(6, 4)), "b": rng.normal(size=6)}
    train, valid, test = (make_lists(n, rng, truth) for n in (600, 150, 300))
    model = Scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=1)
    print(f"untrained ndcg@{TOP} {ndcg(model, test):.4f}")
    for epoch in range(epochs):
        seen = []
        for batch in batches(train, 30):
            optimizer.zero_grad(set_to_none=True)
            loss = lambda_loss(model(batch.features), batch)
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        quality = ndcg(model, valid)
        scheduler.step(quality)
        print(f"epoch {epoch:2d} loss {np.mean(seen):.4f} ndcg {quality:.4f} lr {optimizer.param_groups[0]['lr']:.1e}")
    print(f"result {1 - ndcg(model, test):.5f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*[int(a) for a in sys.argv[1:] if a.isdigit()][:1])
