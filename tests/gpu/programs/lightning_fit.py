"""Trains a small transformer with Lightning, validated every ten batches."""

import argparse
import tempfile

import torch

from report import Report

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--steps", type=int, default=60)
args = parser.parse_args()
SMALL = args.device == "cpu"
VOCABULARY, WIDTH, LAYERS, LENGTH, BATCH = (100, 32, 2, 16, 4) if SMALL else (8000, 768, 8, 512, 32)


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, max(1, WIDTH // 64), 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def loss(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(
            tokens.shape[1] - 1, device=tokens.device
        )
        logits = self.head(self.layers(self.embed(tokens[:, :-1]), mask=mask, is_causal=True))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.log("validation", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 20)]


class Tell(pl.Callback):
    def on_train_start(self, trainer, model):
        self.report = Report(args.device)

    def on_train_batch_end(self, trainer, model, outputs, batch, number):
        self.report.step(outputs["loss"])

    def on_validation_end(self, trainer, model):
        if not trainer.sanity_checking:
            self.report.evaluated(trainer.callback_metrics["validation"])


def loader(count, seed):
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCABULARY, (count * BATCH, LENGTH), generator=draw)
    return torch.utils.data.DataLoader(tokens, BATCH, pin_memory=not SMALL)


torch.use_deterministic_algorithms(True)  # warn_only leaves flash attention as it is
pl.seed_everything(0)
model, tell = Model(), Tell()
with tempfile.TemporaryDirectory() as folder:
    trainer = pl.Trainer(
        accelerator="cpu" if SMALL else "cuda",
        devices=1,
        precision="bf16-mixed",
        max_steps=args.steps,
        val_check_interval=10,
        limit_val_batches=4,
        callbacks=[tell],
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader(args.steps, 1), loader(4, 2))
tell.report.end(model)
