"""Trains GPT-2 small, one sequence at a time, eagerly: its kernels are so short that the host
decides how long a step takes."""

import argparse

import torch
import transformers

from report import Report

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--steps", type=int, default=80)
args = parser.parse_args()
SMALL = {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 100} if args.device == "cpu" else {}

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
config = transformers.GPT2Config(attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, **SMALL)
model = transformers.GPT2LMHeadModel(config).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
tokens = torch.randint(config.vocab_size, (1, 128)).to(args.device)
report = Report(args.device, warm=args.steps // 3)
for _ in range(args.steps):
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    report.step(loss)
report.end(model)
