"""What `stalloc record --stacks` costs a request, in CPU time: its own part, and with PyTorch's.

    python3 tests/bench_stacks.py            the lines of a recording, made with stacks and without
    python3 tests/bench_stacks.py --gpu      requests of programs, too: needs a GPU and PyTorch

PyTorch walks the frames at each request and names them when its history is read; what is measured
is the CPU time of the whole process, from the first request until the recording is written.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from stalloc.record_history import Lines  # noqa: E402
from stalloc.record_stacks import Stacks  # noqa: E402

DEPTH, PLACES, REQUESTS = 40, 400, 20_000

# The end is behind the last look: what a recording does when the program ends counts, too.
MEASURED = """
import atexit, time, torch
from torch import nn
def requests(count=torch.cuda.memory_stats):
    return count()["allocation.all.allocated"]
def begin(time=time, requests=requests):
    torch.cuda.synchronize()
    atexit.register(end, requests(), time.process_time())
def end(before, began, time=time, requests=requests):
    print((time.process_time() - began) / (requests() - before) * 1e6, flush=True)
"""
PROGRAMS = {
    "requests 31 calls deep": f"""
def layer(x, depth):
    return layer(x, depth - 1) if depth else torch.relu(x)
x = torch.randn(1 << 20, device="cuda")
layer(x, 30)
begin()
for _ in range({REQUESTS}):
    y = layer(x, 30)
""",
    "training a Transformer": """
layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 8), nn.Linear(256, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def step():
    model(torch.randn(8, 128, 256, device="cuda")).float().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
step()
begin()
for _ in range(40):
    step()
""",
}


def history():
    """Requests from so many places, so many frames deep; PyTorch shares what is equal."""
    outer = [{"filename": f"/a/f{n}.py", "line": n, "name": "f"} for n in range(DEPTH - 1)]
    stacks = [[{"filename": "/a/x.py", "line": n, "name": "g"}, *outer] for n in range(PLACES)]
    entries = []
    for n in range(REQUESTS):
        block = {"addr": n % 100, "size": 512, "stream": 0, "time_us": n}
        frames = list(stacks[n % PLACES])  # a list of its own, as PyTorch has it
        entries.append({"action": "alloc", "frames": frames, **block})
        entries += [{"action": f"free_{part}", **block} for part in ("requested", "completed")]
    return entries


def lines(entries, stacks):
    began = time.process_time()
    for _ in Lines(Stacks() if stacks else None).of(entries):
        pass
    return (time.process_time() - began) / REQUESTS * 1e6


def recorded(text, stacks):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(MEASURED + text)
        command = [
            sys.executable,
            "-m",
            "stalloc.record",
            "--poll",
            "0",
            *(["--stacks"] if stacks else []),
        ]
        command += ["-o", f"{folder}/run.csv.gz", str(program)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(said.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="requests of programs, too")
    parser.add_argument("--turns", type=int, default=7, help="each way is measured so often")
    args, entries = parser.parse_args(), history()
    ways = {"lines of the trace": lambda stacks: lines(entries, stacks)}
    if args.gpu:
        ways |= {name: partial(recorded, text) for name, text in PROGRAMS.items()}
    for name, measure in ways.items():
        turns = [(measure(False), measure(True)) for _ in range(args.turns)]
        without, with_ = (statistics.median(values) for values in zip(*turns))
        more = 100 * (with_ / without - 1)
        print(f"{name}: {without:.2f} us a request, with stacks {with_:.2f} ({more:+.1f} %)")


if __name__ == "__main__":
    main()
