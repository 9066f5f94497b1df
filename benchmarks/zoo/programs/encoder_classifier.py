"""Text classifier with nn.TransformerEncoder, padding mask and label smoothing."""

import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
PAD, VOCAB, MAXLEN, CLASSES = 0, 60, 24, 3


class Reviews(Dataset):
    """A review is positive, negative or neutral by which of two word groups occurs more often."""

    def __init__(self, size):
        self.items = []
        for _ in range(size):
            n = int(torch.randint(8, MAXLEN + 1, (1,)))
            words = torch.randint(21, VOCAB, (n,))
            label = int(torch.randint(0, CLASSES, (1,)))
            hits = torch.randperm(n)[:4]
            good = {0: 1, 1: 2, 2: 3}[label]
            words[hits[:good]] = torch.randint(1, 11, (good,))
            words[hits[good:]] = torch.randint(11, 21, (4 - good,))
            self.items.append((words, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids = torch.full((len(batch), MAXLEN), PAD)
    for row, (words, _) in zip(ids, batch):
        row[: len(words)] = words
    return ids, torch.tensor([label for _, label in batch])


class Classifier(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.positions = nn.Embedding(MAXLEN, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(dim, CLASSES)

    def forward(self, ids):
        padding = ids == PAD
        x = self.embedding(ids) + self.positions(torch.arange(ids.size(1)))
        x = self.encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).float()
        return self.classifier((x * keep).sum(1) / keep.sum(1))


def main():
    train, test = Reviews(2000), Reviews(500)
    train_loader = DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test, batch_size=100, collate_fn=collate)
    model = Classifier()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    for epoch in range(7):
        model.train()
        running = 0.0
        for ids, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)
            loss.backward()
            optimizer.step()
            running += loss.item()
        scheduler.step()
        model.eval()
        wrong, val = 0, 0.0
        with torch.no_grad():
            for ids, labels in test_loader:
                logits = model(ids)
                val += nn.functional.cross_entropy(logits, labels, reduction="sum").item()
                wrong += (logits.argmax(1) != labels).sum().item()
        print(
            f"epoch {epoch} train {running / len(train_loader):.4f} test {val / len(test):.4f} error {wrong / len(test):.3f}"
        )
    print("result", val / len(test))


if __name__ == "__main__":
    main()
