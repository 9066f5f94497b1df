"""Encoder-decoder transformer that sorts digit sequences of differing length."""
import argparse
import math
import random

import torch
from torch import nn

PAD_ID, BOS_ID, EOS_ID, FIRST_DIGIT = 0, 1, 2, 3
VOCAB_SIZE = 23


def sample_sequence(generator: random.Random, max_length: int):
    length = generator.randint(3, max_length)
    source = [generator.randrange(FIRST_DIGIT, VOCAB_SIZE) for _ in range(length)]
    return source, [BOS_ID] + sorted(source) + [EOS_ID]


def pad_to_longest(sequences):
    longest = max(len(sequence) for sequence in sequences)
    return torch.tensor([sequence + [PAD_ID] * (longest - len(sequence)) for sequence in sequences])

def make_batch(generator, batch_size, max_length):
    pairs = [sample_sequence(generator, max_length) for _ in range(batch_size)]
    return pad_to_longest([source for source, _ in pairs]), pad_to_longest([target for _, target in pairs])

class MultiHeadAttention(nn.Module):
    def __init__(self, model_dim, num_heads, dropout):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, model_dim // num_heads
        self.query, self.key = nn.Linear(model_dim, model_dim), nn.Linear(model_dim, model_dim)
        self.value, self.output = nn.Linear(model_dim, model_dim), nn.Linear(model_dim, model_dim)
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, tensor):
        batch, length, _ = tensor.shape
        return tensor.view(batch, length, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, queries, memory, blocked):
        q, k, v = self.split_heads(self.query(queries)), self.split_heads(self.key(memory)), self.split_heads(self.value(memory))
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.head_dim ** -0.5
        scores = scores.masked_fill(blocked, -1e9)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.output(mixed)

class Layer(nn.Module):
    def __init__(self, model_dim, num_heads, dropout, with_memory):
        super().__init__()
        self.self_attention = MultiHeadAttention(model_dim, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(model_dim, num_heads, dropout) if with_memory else None
        self.feed_forward = nn.Sequential(nn.Linear(model_dim, 4 * model_dim), nn.ReLU(), nn.Linear(4 * model_dim, model_dim))
        self.norms = nn.ModuleList([nn.LayerNorm(model_dim) for _ in range(3)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, self_blocked, memory=None, memory_blocked=None):
        normed = self.norms[0](states)
        states = states + self.dropout(self.self_attention(normed, normed, self_blocked))
        if self.cross_attention is not None:
            states = states + self.dropout(self.cross_attention(self.norms[1](states), memory, memory_blocked))
        return states + self.dropout(self.feed_forward(self.norms[2](states)))

class Sorter(nn.Module):
    def __init__(self, model_dim, num_heads, num_layers, dropout, max_positions=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, model_dim)
        nn.init.normal_(self.embedding.weight, std=model_dim ** -0.5)
        self.positions = nn.Parameter(torch.randn(max_positions, model_dim) * 0.02)
        self.encoder = nn.ModuleList([Layer(model_dim, num_heads, dropout, False) for _ in range(num_layers)])
        self.decoder = nn.ModuleList([Layer(model_dim, num_heads, dropout, True) for _ in range(num_layers)])
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(model_dim), nn.LayerNorm(model_dim)
        self.projection = nn.Linear(model_dim, VOCAB_SIZE, bias=False)
        self.projection.weight = self.embedding.weight

    def embed(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim) + self.positions[: tokens.size(1)]

    def forward(self, source, target_in):
        source_blocked = (source == PAD_ID)[:, None, None, :]
        length = target_in.size(1)
        future = torch.triu(torch.ones(length, length, dtype=torch.bool, device=source.device), diagonal=1)
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, source_blocked)
        memory = self.encoder_norm(memory)
        states = self.embed(target_in)
        for layer in self.decoder:
            states = layer(states, future, memory, source_blocked)
        return self.projection(self.decoder_norm(states))

def noam_rate(step, model_dim, warmup):
    step = step + 1
    return model_dim ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)

def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-dim", type=int, default=64)
    parser.add_argument("--num-heads", type=int, default=4)
    parser.add_argument("--num-layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--num-steps", type=int, default=3000)
    arguments = parser.parse_args()
    torch.manual_seed(4)
    train_generator, test_generator = random.Random(40), random.Random(41)
    model = Sorter(arguments.model_dim, arguments.num_heads, arguments.num_layers, arguments.dropout)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: noam_rate(s, arguments.model_dim, arguments.warmup))
    for step in range(arguments.num_steps):
        model.train()
        source, target = make_batch(train_generator, arguments.batch_size, arguments.max_length)
        target_in, target_out = target[:, :-1], target[:, 1:]
        logits = model(source, target_in)
        loss = criterion(logits.transpose(1, 2), target_out)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 200 == 0:
            model.eval()
            with torch.no_grad():
                source, target = make_batch(test_generator, 128, arguments.max_length)
                test_loss = criterion(model(source, target[:, :-1]).transpose(1, 2), target[:, 1:])
            print(f"step {step} train loss {loss.item():.4f} test loss {test_loss.item():.4f}")

if __name__ == "__main__":
    main()
