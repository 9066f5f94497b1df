"""BIO tagger (embedding + BiGRU) trained with DistributedDataParallel; `torchrun` or plain `python` (a world of one)."""
import contextlib
import os
import random
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

PAD, IGNORE = 0, -100
TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
FILLER, CUES, NAMES = range(1, 601), [range(601, 613), range(613, 625), range(625, 637)], range(637, 887)
VOCAB = 887


class Sentences(Dataset):
    """A run of names is an entity when a cue word stands next to it (before it, or after it); the cue gives its type."""

    def __init__(self, n, seed):
        rnd = random.Random(seed)
        self.items = [self._sentence(rnd) for _ in range(n)]

    @staticmethod
    def _sentence(rnd):
        words, tags = [], []

        def fill(lo, hi):
            for _ in range(rnd.randint(lo, hi)):
                words.append(rnd.choice(FILLER))
                tags.append(0)

        fill(1, 4)
        for _ in range(rnd.randint(1, 3)):
            kind, where = rnd.randrange(3), rnd.choice(["before", "after", "none"])
            span = [rnd.choice(NAMES) for _ in range(rnd.randint(1, 3))]
            labels = [0] * len(span) if where == "none" else [1 + 2 * kind] + [2 + 2 * kind] * (len(span) - 1)
            cue = [rnd.choice(CUES[kind])] if where != "none" else []
            words += cue + span if where == "before" else span + cue
            tags += [0] * len(cue) + labels if where == "before" else labels + [0] * len(cue)
            fill(1, 5)
        return torch.tensor(words), torch.tensor(tags)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    words, tags = zip(*batch)
    lengths = torch.tensor([len(w) for w in words])
    words = pad_sequence(words, batch_first=True, padding_value=PAD)
    tags = pad_sequence(tags, batch_first=True, padding_value=IGNORE)
    lengths, order = lengths.sort(descending=True)  # cuDNN wants them longest first
    return words[order], tags[order], lengths


class Tagger(nn.Module):
    def __init__(self, dim=40, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.drop = nn.Dropout(0.2)
        self.rnn = nn.GRU(dim, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, words, lengths):
        x = pack_padded_sequence(self.drop(self.embed(words)), lengths.cpu(), batch_first=True)
        h, _ = pad_packed_sequence(self.rnn(x)[0], batch_first=True)
        return self.out(self.drop(h))


def spans(tags):
    """(start, end, type) of every entity in a BIO list."""
    found, start = set(), None
    for i, t in enumerate(list(tags) + [0]):
        inside = start is not None and t == tags[start] + 1
        if start is not None and not inside:
            found.add((start, i, tags[start]))
            start = None
        if t % 2 == 1:
            start = i
    return found


@torch.no_grad()
def f1(net, loader, device):
    net.eval()
    tp = n_pred = n_gold = 0
    for words, tags, lengths in loader:
        pred = net(words.to(device), lengths).argmax(-1).cpu()
        for p, g, n in zip(pred.tolist(), tags.tolist(), lengths.tolist()):
            p, g = spans(p[:n]), spans(g[:n])
            tp, n_pred, n_gold = tp + len(p & g), n_pred + len(p), n_gold + len(g)
    net.train()
    return 2 * tp / max(1, n_pred + n_gold)


def main(steps=440, accum=2, batch_size=16, lr=6e-3):
    torch.manual_seed(11)
    use_cuda = torch.cuda.is_available()
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if use_cuda else "gloo")
    else:
        store = os.path.join(tempfile.mkdtemp(), "rendezvous")
        dist.init_process_group("nccl" if use_cuda else "gloo", init_method=f"file://{store}", rank=0, world_size=1)
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if use_cuda else torch.device("cpu")

    train, dev = Sentences(3200, seed=1), Sentences(500, seed=2)
    sampler = DistributedSampler(train, num_replicas=world, rank=rank, shuffle=True, drop_last=True)
    train_loader = DataLoader(train, batch_size, sampler=sampler, collate_fn=collate, drop_last=True, pin_memory=use_cuda)
    dev_loader = DataLoader(dev, 64, collate_fn=collate)

    model = DDP(Tagger().to(device), device_ids=[rank] if use_cuda else None, gradient_as_bucket_view=True)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=30),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - 30, eta_min=lr * 0.02)], milestones=[30])

    done, epoch = 0, 0
    while done < steps:
        sampler.set_epoch(epoch)
        for i, (words, tags, lengths) in enumerate(train_loader):
            words, tags = words.to(device, non_blocking=True), tags.to(device, non_blocking=True)
            last = (i + 1) % accum == 0
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(words, lengths)
                loss = criterion(logits.flatten(0, 1), tags.flatten())
                (loss / accum).backward()
            if not last:
                continue
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done % 55 == 0 and rank == 0:
                print(f"step {done}/{steps} epoch {epoch} loss {loss.item():.4f}", flush=True)
            if done == steps:
                break
        epoch += 1

    score = f1(model.module, dev_loader, device)
    if rank == 0:
        print(f"final: dev entity F1 {score:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
