"""Fine-tunes a Llama with Hugging Face's Trainer: lengths vary, activations are recomputed, and
every ten steps it is evaluated. Weights and tokens are random."""

import argparse
import tempfile

import torch
import transformers
from torch.nn.utils.rnn import pad_sequence

from report import Report

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
SMALL = args.device == "cpu"
LONGEST, BATCH = (32, 2) if SMALL else (1500, 8)


class Sequences(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        draw = torch.Generator().manual_seed(self.seed * 100_003 + place)
        length = int(torch.randint(LONGEST // 8, LONGEST, (), generator=draw))
        return torch.randint(8000 if not SMALL else 100, (length,), generator=draw)


def pad(sequences):
    tokens = pad_sequence(sequences, batch_first=True)
    labels = pad_sequence(sequences, batch_first=True, padding_value=-100)
    return {"input_ids": tokens, "attention_mask": (labels >= 0).long(), "labels": labels}


class Trainer(transformers.Trainer):
    def training_step(self, *arguments, **named):
        self.last = super().training_step(*arguments, **named)
        return self.last


class Tell(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        report.step(trainer.last)

    def on_evaluate(self, *_, metrics, **__):
        report.evaluated(metrics["eval_loss"])


torch.use_deterministic_algorithms(True)  # warn_only leaves flash attention as it is
torch.manual_seed(0)
model = transformers.LlamaForCausalLM(
    transformers.LlamaConfig(
        num_hidden_layers=2 if SMALL else 8,
        hidden_size=64 if SMALL else 1024,
        intermediate_size=128 if SMALL else 2816,
        num_attention_heads=2 if SMALL else 16,
        vocab_size=100 if SMALL else 8000,
        use_cache=False,
    )
)
with tempfile.TemporaryDirectory() as folder:
    settings = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=args.steps,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        eval_strategy="steps",
        eval_steps=10,
        prediction_loss_only=True,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        bf16=True,
        learning_rate=3e-4,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=0,
        use_cpu=SMALL,
    )
    trainer = Trainer(
        model=model,
        args=settings,
        data_collator=pad,
        train_dataset=Sequences(args.steps * BATCH, 1),
        eval_dataset=Sequences(4 * BATCH, 2),
        callbacks=[Tell()],
    )
    report = Report(args.device)
    trainer.train()
report.end(model)
