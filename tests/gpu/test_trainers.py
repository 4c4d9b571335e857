"""Hugging Face's Trainer and Lightning's with StallocCallback(offload=True): both train under a
limit at which they run out of memory without, and their losses are the same bits.

    python tests/gpu/test_trainers.py        # 150 s on an H200; needs transformers, lightning

Each run is a process of its own. The limit is a tenth below the live peak of the native run.
"""

import argparse
import itertools
import json
import sys
import tempfile

import gpu

SHARE = 0.9  # of native's live peak
STEPS, BATCH, LENGTH, VOCABULARY = 8, 4, 2048, 32000
SHAPE = (6, 2048, 5504, VOCABULARY)
ACCUMULATE = 2


def batches(torch, tiny):
    length = 32 if tiny else LENGTH
    generator = torch.Generator().manual_seed(1)
    return torch.randint(100 if tiny else VOCABULARY, (STEPS * ACCUMULATE * BATCH, length),
                         generator=generator)  # fmt: skip


def hf_trainer(torch, callbacks, note, tiny):
    """Trains with transformers.Trainer, notes each loss; returns the model."""
    import transformers

    layers, width, inner, vocabulary = (2, 64, 128, 100) if tiny else SHAPE
    config = transformers.LlamaConfig(
        num_hidden_layers=layers, hidden_size=width, intermediate_size=inner,
        num_attention_heads=max(1, width // 128), vocab_size=vocabulary, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(1)
    with torch.device("cpu" if tiny else "cuda"):
        model = transformers.LlamaForCausalLM(config)

    class Trainer(transformers.Trainer):
        def training_step(self, *given, **named):
            return note(super().training_step(*given, **named).detach().clone())

    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder, max_steps=STEPS, per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=ACCUMULATE, bf16=True, gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False}, optim="adamw_torch_fused",
            learning_rate=1e-4, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=tiny,
        )  # fmt: skip
        data = [{"input_ids": row, "labels": row} for row in batches(torch, tiny)]
        Trainer(model=model, args=settings, train_dataset=data, callbacks=callbacks).train()
    return model


def lightning_trainer(torch, callbacks, note, tiny):
    """Trains with Lightning's Trainer, notes each loss; returns the model."""
    try:
        import lightning.pytorch as lightning
    except ImportError:
        import pytorch_lightning as lightning
    import offload_model

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = offload_model.Model(*((2, 64, 128, 100) if tiny else SHAPE))
            self.model.recompute = 1

        def training_step(self, tokens, _):
            loss = self.model(tokens)
            note(loss.detach().clone())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=not tiny)

    torch.manual_seed(1)
    with torch.device("cpu" if tiny else "cuda"):
        module = Module()
    trainer = lightning.Trainer(
        max_steps=STEPS, accumulate_grad_batches=ACCUMULATE, precision="bf16-mixed",
        accelerator="cpu" if tiny else "gpu", devices=1, callbacks=callbacks, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(batches(torch, tiny), batch_size=BATCH, shuffle=False)
    trainer.fit(module, loader)
    return module


FRAMEWORKS = {"hf": hf_trainer, "lightning": lightning_trainer}


def play(options):
    """A run in this process."""
    import harness

    stalloc = harness.choose_allocator("native" if options.way == "native" else "stalloc")
    harness.make_deterministic()
    import measure
    import torch

    if options.limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(options.limit / total)
    callbacks = []
    if stalloc:
        if options.framework == "hf":
            from stalloc.integrations.transformers import StallocCallback
        else:
            from stalloc.integrations.lightning import StallocCallback
        callbacks = [StallocCallback(offload=options.way == "offload")]
    on_gpu = not options.tiny
    losses, host = [], [0]

    def note(loss):
        losses.append(loss)
        if stalloc and on_gpu:  # at its end Lightning moves the optimizer's states to the host
            host.append(stalloc.stats().backup)
        return loss

    try:
        model = FRAMEWORKS[options.framework](torch, callbacks, note, options.tiny)
    except RuntimeError as error:
        if not any(text in str(error) for text in harness.OUT_OF_MEMORY):
            raise
        print(json.dumps({"out of memory": str(error).splitlines()[0]}))
        return
    losses = [float(loss) for loss in losses]
    measure.require_sound(model, losses)
    print(json.dumps({
        "losses": [measure.bits(loss) for loss in losses], "checksum": measure.checksum(model),
        "live": torch.cuda.max_memory_allocated() if on_gpu else 0,
        "held": torch.cuda.max_memory_reserved() if on_gpu else 0,
        "host": max(host),
    }))  # fmt: skip


def both_ways(framework):
    """Asserts what must hold of a framework; returns words for the table."""

    def run(way, limit=0):
        words = ["--framework", framework, "--way", way, "--limit", str(limit)]
        return gpu.python(__file__, *words)[0]

    native = run("native")
    limit = int(SHARE * native["live"])
    for way in ("native", "stalloc"):
        assert "out of memory" in run(way, limit), f"{way} trains at {limit / gpu.GIB:.2f} GiB"
    ours = run("offload", limit)
    assert "losses" in ours, ours
    assert len(ours["losses"]) == STEPS * ACCUMULATE
    assert ours["losses"] == native["losses"], list(
        itertools.islice(zip(native["losses"], ours["losses"]), 8)
    )
    assert ours["checksum"] == native["checksum"]
    assert 0 < ours["held"] <= limit and ours["host"] > 0, ours
    sizes = [f"{size / gpu.GIB:.2f}" for size in (native["live"], ours["held"], ours["host"])]
    return "live natively {}, held {}, on the host {} GiB".format(*sizes)


def check_hugging_face():
    return both_ways("hf")


def check_lightning():
    return both_ways("lightning")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", choices=FRAMEWORKS)
    parser.add_argument("--way", choices=["native", "stalloc", "offload"])
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="on the CPU")
    chosen = parser.parse_args()
    if chosen.framework:
        sys.exit(play(chosen))
    gpu.run(globals())
