"""Distil a wide audio classifier into a narrow one; gradient accumulation and mixed precision."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--teacher-epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accumulate", type=int, default=4)
parser.add_argument("--base-lr", type=float, default=2e-3, help="for 128 samples per update")
parser.add_argument("--temperature", type=float, default=3.0)
parser.add_argument("--alpha", type=float, default=0.7, help="share of the soft loss")
parser.add_argument("--clip", type=float, default=5.0)
parser.add_argument("--seed", type=int, default=11)
NUM_CLASSES, BANDS, FRAMES = 6, 24, 48


def synth_clips(count, seed):
    """Log-spectrograms of chirps: the class is the start band and the direction of the sweep."""
    gen = torch.Generator().manual_seed(seed)
    label = torch.randint(0, NUM_CLASSES, (count,), generator=gen)
    start = 4.0 + 7.0 * (label % 3) + torch.randn(count, generator=gen)
    slope = torch.where(label < 3, 0.12, -0.12)
    time = torch.arange(FRAMES).float()
    band = torch.arange(BANDS).float()
    centre = start[:, None] + slope[:, None] * (time - FRAMES / 2)
    energy = torch.exp(-0.5 * (band[None, :, None] - centre[:, None, :]) ** 2)
    loudness = 10 ** torch.empty(count, 1, 1).uniform_(-1, 1, generator=gen)
    noise = 0.3 * torch.rand(count, BANDS, FRAMES, generator=gen)
    return torch.log(loudness * (energy + noise) + 1e-4), label


class AudioNet(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(BANDS, width, 5, padding=2), nn.BatchNorm1d(width)
        self.conv2, self.bn2 = nn.Conv1d(width, width, 5, stride=2, padding=2), nn.BatchNorm1d(width)
        self.conv3, self.bn3 = nn.Conv1d(width, width, 3, stride=2, padding=1), nn.BatchNorm1d(width)
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(width, NUM_CLASSES)

    def forward(self, spec):
        mean = spec.mean(dim=(1, 2), keepdim=True)
        std = spec.std(dim=(1, 2), keepdim=True)
        h = (spec - mean) / (std + 1e-5)
        h = F.relu(self.bn1(self.conv1(h)))
        h = F.relu(self.bn2(self.conv2(h)))
        h = F.relu(self.bn3(self.conv3(h)))
        return self.fc(self.drop(h.mean(dim=2)))


def train_teacher(teacher, data, args, device):
    opt = torch.optim.Adam(teacher.parameters(), lr=1e-3)
    teacher.train()
    for _ in range(args.teacher_epochs):
        for spec, label, _ in DataLoader(data, batch_size=64, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(teacher(spec.to(device)), label.to(device)).backward()
            opt.step()


@torch.no_grad()
def cache_logits(teacher, data, device):
    teacher.eval()
    loader = DataLoader(data, batch_size=256, shuffle=False)
    return torch.cat([teacher(spec.to(device)) for spec, _, _ in loader])


def distillation_loss(student_logits, teacher_logits, label, args):
    t = args.temperature
    soft = F.kl_div(F.log_softmax(student_logits / t, dim=1), F.softmax(teacher_logits / t, dim=1),
                    reduction="batchmean") * t * t
    hard = F.cross_entropy(student_logits, label)
    return args.alpha * soft + (1 - args.alpha) * hard


@torch.no_grad()
def accuracy(net, spec, label, device):
    net.eval()
    return (net(spec.to(device)).argmax(dim=1).cpu() == label).float().mean().item()


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    use_amp = device == "cuda"
    spec, label = synth_clips(4096, args.seed)
    data = TensorDataset(spec, label, torch.arange(len(label)))
    test_spec, test_label = synth_clips(1024, args.seed + 1)

    teacher, student = AudioNet(96, 0.3).to(device), AudioNet(20, 0.1).to(device)
    train_teacher(teacher, data, args, device)
    teacher_logits = cache_logits(teacher, data, device)
    print(f"teacher accuracy {accuracy(teacher, test_spec, test_label, device):.3f}")

    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    lr = args.base_lr * args.batch_size * args.accumulate / 128
    optimizer = torch.optim.AdamW(student.parameters(), lr=lr)
    updates = args.epochs * len(loader) // args.accumulate
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=updates + 1)
    scaler = torch.amp.GradScaler(device, enabled=use_amp)

    for epoch in range(args.epochs):
        student.train()
        total = 0.0
        for i, (clip, target, index) in enumerate(loader):
            clip, target = clip.to(device), target.to(device)
            with torch.amp.autocast(device, enabled=use_amp):
                output = student(clip)
            loss = distillation_loss(output.float(), teacher_logits[index.to(device)], target, args)
            scaler.scale(loss / args.accumulate).backward()
            total += loss.item()
            if (i + 1) % args.accumulate == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(student.parameters(), args.clip)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                scheduler.step()
        print(f"epoch {epoch} loss {total / len(loader):.4f} "
              f"accuracy {accuracy(student, test_spec, test_label, device):.3f}")


if __name__ == "__main__":
    main()
