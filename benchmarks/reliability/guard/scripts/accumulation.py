"""Two micro-batches a step, of a model with attention."""

import torch
from torch.nn import functional

from benchmarks.reliability.guard.stage import stage


class Reader(torch.nn.Module):
    """Embeds tokens, attends to them and predicts the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = torch.nn.Linear(16, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layer(self.embedding(tokens), mask, is_causal=True))


torch.manual_seed(0)
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
stage.watch(model, optimizer)
for number in range(8):
    stage.step(number)
    optimizer.zero_grad()
    for _ in range(2):
        tokens = torch.randint(0, 11, (4, 9))
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.reshape(-1, 11), tokens[:, 1:].reshape(-1)) / 2
        loss.backward()
        stage.loss(loss)
    optimizer.step()
    if number == 4:
        model.eval()
        with torch.no_grad():
            model(tokens[:, :-1])
        model.train()
stage.end([*model.parameters()])
