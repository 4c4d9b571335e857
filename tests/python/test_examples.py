"""The training examples: their options everywhere, their arithmetic where PyTorch is."""

import json
import os
import random
import subprocess
import sys
import types
from pathlib import Path

import generate
import harness
import pytest
import rl_loop
import train_deepseek
import train_hf
import train_megatron
import train_moe
import train_pyg
import train_varlen
import train_vision

EXAMPLES = Path(train_moe.__file__).parent


@pytest.fixture
def all_installed(monkeypatch):
    """As if every library were there that an example asks for."""
    monkeypatch.setattr(harness, "missing", lambda *modules: "")
    monkeypatch.setattr(train_megatron, "missing", lambda: "")


def test_a_preset_gives_what_is_not_asked_for():
    args = train_moe.parse_arguments(["--preset", "qwen", "--layers", "3"])
    assert (args.layers, args.experts, args.top, args.dispatch) == (3, 60, 4, "loop")
    assert train_moe.parse_arguments([]).experts == 8


@pytest.mark.parametrize(
    "module, options, message",
    [
        (train_moe, ["--top", "9"], "--top 9 is more than there are --experts (8)"),
        (train_moe, ["--width", "100"], "must be a multiple of twice --heads 16"),
        (train_varlen, ["--shortest", "9", "--longest", "8"], "want --shortest <= --longest"),
        (train_varlen, ["--packed", "--tokens", "100"], "--longest <= --tokens if packed"),
        (train_vision, ["--model", "vit", "--sides", "100"], "multiples of 16"),
        (train_hf, ["--width", "100", "--heads", "3"], "must be a multiple of twice --heads 3"),
        (train_hf, ["--shortest", "9", "--longest", "8"], "want --shortest (9) <= --longest (8)"),
        (train_hf, ["--eval-every", "-1"], "or 0 for never"),
        (train_pyg, ["--heads", "3"], "--width 128 must be a multiple of --heads 3"),
        (rl_loop, ["--tokens", "0"], "0 is not a positive number"),
        (train_deepseek, ["--top", "40"], "--top 40 is more than there are --experts (32)"),
        (generate, ["--width", "100"], "--width 100 must be a multiple of 128"),
        (train_megatron, ["--experts", "2"], "want at least --top (4), or 0 for none"),
    ],
)
def test_bad_options(module, options, message, capsys, all_installed):
    with pytest.raises(SystemExit):
        module.parse_arguments(options)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "module, options, message",
    [
        (rl_loop, [], "not installed: torch transformers (pip install it)"),
        (train_hf, [], "not installed: transformers accelerate (pip install it)"),
        (train_hf, ["--lora"], "not installed: transformers accelerate peft"),
        (train_pyg, [], "not installed: torch_geometric"),
    ],
)
def test_a_library_that_is_missing_is_named(module, options, message, capsys, monkeypatch):
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        module.parse_arguments(options)
    assert message in capsys.readouterr().err


def test_megatron_is_looked_for_where_the_environment_says(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("MEGATRON_PATH", raising=False)
    with pytest.raises(SystemExit):
        train_megatron.parse_arguments([])
    assert "MEGATRON_PATH is not set" in capsys.readouterr().err
    monkeypatch.setenv("MEGATRON_PATH", str(tmp_path))
    assert f"MEGATRON_PATH={tmp_path}: there is no megatron/core" in train_megatron.missing()
    (tmp_path / "megatron" / "core").mkdir(parents=True)
    assert train_megatron.missing() == ""
    dense, experts = (train_megatron.parse_arguments(o) for o in ([], ["--experts", "16"]))
    assert (dense.layers, dense.hidden, experts.layers, experts.hidden) == (16, 8192, 10, 1024)


def test_graphs_vary_within_their_bounds(all_installed):
    args = train_pyg.parse_arguments([])
    graphs = [train_pyg.draw_graph(args, random.Random(seed)) for seed in range(50)]
    assert len({nodes for nodes, _ in graphs}) > 40 and len({edges for _, edges in graphs}) > 40
    for nodes, edges in graphs:
        assert args.nodes / 2 <= nodes <= args.nodes
        assert args.degree / 2 <= edges / nodes <= args.degree + 1


class Loop:
    """Writes down what harness.Loop is told."""

    def __init__(self):
        self.begun, self.ended = 0, []

    def begin(self):
        assert self.begun == len(self.ended)
        self.begun += 1

    def end(self, step):
        assert self.begun == len(self.ended) + 1
        self.ended.append((step.loss, step.items, step.phase, step.evaluation))


def fake_transformers(steps, eval_steps):
    """A Trainer that calls back in the order in which the real one does."""

    class Trainer:
        def __init__(self, model, args, callbacks, **_):
            self.callbacks, self.args = callbacks, args

        def training_step(self, model, inputs):
            return inputs["input_ids"].numel() / 100

        def call(self, event, control, **more):
            for callback in self.callbacks:
                getattr(callback, event, lambda *_, **__: None)(self.args, None, control, **more)

        def train(self):
            control = types.SimpleNamespace(should_evaluate=False)
            self.call("on_train_begin", control)
            for step in range(1, steps + 1):
                tokens = types.SimpleNamespace(numel=lambda step=step: 10 * step)
                self.call("on_step_begin", control)
                self.training_step(None, {"input_ids": tokens})
                control.should_evaluate = step % eval_steps == 0
                self.call("on_step_end", control)
                if control.should_evaluate:
                    self.call("on_evaluate", control, metrics={"eval_loss": step / 2})

    class Callback:
        pass

    return types.SimpleNamespace(
        Trainer=Trainer, TrainerCallback=Callback, TrainingArguments=types.SimpleNamespace
    )


def test_the_trainer_tells_of_every_step_once(monkeypatch, all_installed, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", fake_transformers(steps=5, eval_steps=2))
    args, loop = train_hf.parse_arguments(["--steps", "5", "--eval-every", "2"]), Loop()
    train_hf.make_trainer(args, None, loop, str(tmp_path), on_cpu=True).train()
    assert loop.ended == [
        (0.1, 10, "train", None),
        (0.2, 20, "train+eval", 1.0),
        (0.3, 30, "train", None),
        (0.4, 40, "train+eval", 2.0),
        (0.5, 50, "train", None),
    ]


def test_packs_fill_the_row_and_vary():
    args = train_varlen.parse_arguments(["--packed"])
    packs = [train_varlen.draw_pack(args, random.Random(seed)) for seed in range(50)]
    totals = {sum(pack) for pack in packs}
    assert len(totals) > 40 and max(totals) <= args.tokens
    assert min(totals) > args.tokens - args.longest
    assert all(args.shortest <= length <= args.longest for pack in packs for length in pack)
    assert len({len(pack) for pack in packs}) > 5


def run(tmp_path, script, *options):
    """The report of a run of two steps on the CPU."""
    out = tmp_path / "report.json"
    command = [sys.executable, str(EXAMPLES / script), "--tiny", "--steps", "2"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(
        [*command, *options, "--json", str(out)], check=True, env=environment, capture_output=True
    )
    return json.loads(out.read_text())


def needing(line, *modules):
    """A parameter that needs more than PyTorch."""
    why = harness.missing(*modules)
    return pytest.param(line, marks=pytest.mark.skipif(bool(why), reason=why))


def outcome(report):
    return [step["loss_bits"] for step in report["steps"]], report["checksum"]


@pytest.mark.torch
@pytest.mark.parametrize(
    "line",
    [
        "train_llama.py --eval-every 2 --batch-change 1:2",
        "train_idle.py --eval-every 2",
        "train_moe.py --preset mixtral",
        "train_moe.py --preset qwen --recompute",
        "train_moe.py --preset fine",
        "train_varlen.py",
        "train_varlen.py --packed --recompute",
        "train_vision.py",
        "train_vision.py --model vit",
        needing("train_hf.py --eval-every 2", "transformers", "accelerate"),
        needing("train_hf.py --lora", "transformers", "accelerate", "peft"),
        needing("train_pyg.py", "torch_geometric"),
        needing("train_deepseek.py", "transformers"),
        needing("generate.py", "transformers"),
    ],
)
def test_runs_and_repeats_bit_for_bit(tmp_path, line):
    first = run(tmp_path, *line.split())
    assert outcome(first) == outcome(run(tmp_path, *line.split()))
    assert all(step["items"] > 0 for step in first["steps"])
    assert first["summary"]["median_items_per_second"] > 0


@pytest.mark.torch
@pytest.mark.parametrize(
    "script, options, change",
    [
        ("train_moe.py", ["--preset", "fine"], ["--dispatch", "loop"]),
        ("train_moe.py", ["--preset", "qwen"], ["--recompute"]),
        ("train_varlen.py", ["--packed"], ["--recompute"]),
    ],
)
def test_another_way_to_the_same_loss(tmp_path, script, options, change):
    expected = run(tmp_path, script, *options)["steps"]
    got = run(tmp_path, script, *options, *change)["steps"]
    for one, other in zip(expected, got):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)


@pytest.mark.torch
def test_packed_sequences_do_not_see_each_other():
    import decoder
    import packed
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        model = decoder.Decoder(2, 32, 2, 50, lambda: decoder.SwiGLU(32, 64))
        lengths = [5, 1, 9]
        tokens = torch.randint(50, (1, sum(lengths)))
        targets, positions = packed.separate(tokens.clone(), lengths)
        assert (targets < 0).nonzero()[:, 1].tolist() == [4, 5, 14]
        whole, _ = model(tokens, positions, packed.loop(lengths, tokens.device))
        parts = [model(piece)[0] for piece in tokens.split(lengths, dim=1)]
        assert torch.allclose(whole, torch.cat(parts, dim=1), atol=1e-5)
