"""The training examples: their options everywhere, their arithmetic where PyTorch is."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import train_moe
import train_varlen
import train_vision

EXAMPLES = Path(train_moe.__file__).parent


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
    ],
)
def test_bad_options(module, options, message, capsys):
    with pytest.raises(SystemExit):
        module.parse_arguments(options)
    assert message in capsys.readouterr().err


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


def outcome(report):
    return [step["loss_bits"] for step in report["steps"]], report["checksum"]


@pytest.mark.torch
@pytest.mark.parametrize(
    "line",
    [
        "train_llama.py --eval-every 2 --batch-change 1:2",
        "train_moe.py --preset mixtral",
        "train_moe.py --preset qwen --recompute",
        "train_moe.py --preset fine",
        "train_varlen.py",
        "train_varlen.py --packed --recompute",
        "train_vision.py",
        "train_vision.py --model vit",
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
