#!/usr/bin/env python3
"""Trains a small decoder with Lightning under stalloc: what a program of your own would look like.

Sequences are of varying length, as in most fine-tuning; weights and tokens are random, nothing is
downloaded. Needs lightning; without a GPU it trains on the CPU, and stalloc says that it is off.

    python examples/train_lightning.py
"""

import argparse
import random

import lightning
import stalloc
import torch
from stalloc.integrations.lightning import StallocCallback
from torch import nn

VOCABULARY, WIDTH = 4096, 512


class Decoder(lightning.LightningModule):
    def __init__(self, layers):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def training_step(self, batch, index):
        text, following = batch[:, :-1], batch[:, 1:]
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        guess = self.head(self.layers(self.tokens(text), mask=mask, is_causal=True))
        loss = nn.functional.cross_entropy(guess.transpose(1, 2), following)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def batches(steps, longest):
    """Each batch is as long as its longest sequence."""
    chance = random.Random(0)
    for _ in range(steps):
        yield torch.randint(VOCABULARY, (8, chance.randint(longest // 8, longest)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--longest", type=int, default=1024, metavar="TOKENS")
    args = parser.parse_args()
    stalloc.enable()
    trainer = lightning.Trainer(
        max_epochs=1, callbacks=[StallocCallback()], logger=False, enable_checkpointing=False,
        accelerator="auto", devices=1,
    )  # fmt: skip
    data = list(batches(args.steps, args.longest))
    model = Decoder(args.layers)
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=None))
    wrong = [name for name, value in model.named_parameters() if not value.isfinite().all()]
    if wrong:
        raise SystemExit(f"not finite after {args.steps} steps: {', '.join(wrong)}")
    print(stalloc.stats())


if __name__ == "__main__":
    main()
