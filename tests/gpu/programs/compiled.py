"""Trains a compiled decoder: `--mode default`, or `reduce-overhead` with its CUDA graphs."""

import argparse

import torch

from report import Report

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--mode", default="default")
parser.add_argument("--steps", type=int, default=60)
args = parser.parse_args()
SMALL = args.device == "cpu"
VOCABULARY, WIDTH, LAYERS, LENGTH, BATCH = (100, 32, 1, 16, 2) if SMALL else (8000, 768, 6, 512, 16)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.inner, self.outer = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = (
            torch.nn.Linear(WIDTH, 4 * WIDTH),
            torch.nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x):
        heads = self.inner(self.first(x)).unflatten(-1, (3, -1, min(WIDTH, 64)))
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.outer(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.second(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        logits = self.head(self.blocks(self.embed(tokens[:, :-1])))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


torch.use_deterministic_algorithms(True)  # warn_only leaves flash attention as it is
torch.manual_seed(0)
model = Model().to(args.device)
compiled = torch.compile(model, mode=args.mode)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
report = Report(args.device)
for step in range(args.steps):
    draw = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=draw).to(args.device)
    with torch.autocast(args.device, torch.bfloat16):
        loss = compiled(tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    report.step(loss)
report.end(model)
