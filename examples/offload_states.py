"""What a model trains at under a limit, with its optimizer states offloaded and without.

A Llama-like model of 1.34 billion parameters (24 layers of 2048, 5504 inner, vocabulary 32,000),
fp32 weights under bf16 autocast, fused AdamW, sequences of 2048, recomputed. Prints a row of JSON
for each way: tokens/s (median of the steps behind the third), losses, and the most that was held.

    python examples/offload_states.py [--limit 24] [--batch 2] [--accumulate 8] [--turns 1]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

GIB = 1 << 30
WAYS = {  # allocator, limited, way
    "native, no limit": ("native", False, "plain"),
    "stalloc, no limit": ("stalloc", False, "plain"),
    "stalloc, offload, no limit": ("stalloc", False, "offload"),
    "stalloc, offload": ("stalloc", True, "offload"),
    "stalloc": ("stalloc", True, "plain"),
    "native, copied by hand": ("native", True, "hand"),
    "stalloc, copied by hand": ("stalloc", True, "hand"),
}


def model(torch, layers, width, inner, vocabulary, recompute):
    from torch.utils.checkpoint import checkpoint

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
            self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
            self.out = torch.nn.Linear(width, width, bias=False)
            self.gate = torch.nn.Linear(width, inner, bias=False)
            self.up = torch.nn.Linear(width, inner, bias=False)
            self.down = torch.nn.Linear(inner, width, bias=False)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(self.first(x)).view(b, n, 3, width // 128, 128).unbind(2)
            y = torch.nn.functional.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
            )
            x = x + self.out(y.transpose(1, 2).reshape(b, n, width))
            y = self.second(x)
            return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(vocabulary, width)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(layers))
            self.norm = torch.nn.RMSNorm(width)
            self.head = torch.nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
            logits = self.head(self.norm(x))
            return torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()
            )

    torch.manual_seed(1)
    with torch.device("cuda"):
        return Model()


def by_hand(torch, optimizer):
    """States are copied to pinned memory behind each step, and back before it, with waits."""
    host = {}

    def back(*_):
        for values in optimizer.state.values():
            for key, tensor in values.items():
                if (id(values), key) in host:
                    copy = host[id(values), key]
                    tensor.untyped_storage().resize_(copy.nbytes)
                    tensor.copy_(copy, non_blocking=True)
        torch.cuda.synchronize()

    def away(*_):
        moved = []
        for values in optimizer.state.values():
            for key, tensor in values.items():
                if tensor.is_cuda and tensor.nbytes >= 1 << 20:
                    if (id(values), key) not in host:
                        host[id(values), key] = torch.empty_like(
                            tensor, device="cpu", pin_memory=True
                        )
                    host[id(values), key].copy_(tensor, non_blocking=True)
                    moved.append(tensor)
        torch.cuda.synchronize()
        for tensor in moved:
            tensor.untyped_storage().resize_(0)

    optimizer.register_step_pre_hook(back)
    optimizer.register_step_post_hook(away)


def run(options):
    allocator, limited, way = WAYS[options.way]
    import torch

    stalloc = None
    if allocator == "stalloc":
        import stalloc

        stalloc.enable(strict=True)
    if limited:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(options.limit * GIB / total)
    net = model(torch, *options.shape, not options.keep)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    if way == "offload":
        stalloc.offload(optimizer)
    elif way == "hand":
        by_hand(torch, optimizer)
    generator = torch.Generator("cuda").manual_seed(1)
    losses, times, seen = [], [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        total = 0.0
        for _ in range(options.accumulate):
            tokens = torch.randint(
                0, options.shape[3], (options.batch, options.length),
                device="cuda", generator=generator,
            )  # fmt: skip
            with torch.autocast("cuda", torch.bfloat16):
                loss = net(tokens) / options.accumulate
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(total))
        times.append(time.perf_counter() - begin)
        seen.append(stalloc.stats().driver_ns / 1e9 if stalloc else 0.0)
    tokens = options.batch * options.accumulate * options.length
    row = {
        "way": options.way, "device": torch.cuda.get_device_name(),
        "tokens/s": round(tokens / statistics.median(times[3:])),
        "seconds": [round(t, 3) for t in times],
        "losses": [round(x, 6) for x in losses],
        "held, GiB": round(torch.cuda.max_memory_reserved() / GIB, 2),
        "live, GiB": round(torch.cuda.max_memory_allocated() / GIB, 2),
    }  # fmt: skip
    if stalloc:
        stats = stalloc.stats()
        row["host, GiB"] = round(stats.backup / GIB, 2)
        row["retries"] = stats.retries
        row["driver, s a step"] = [round(b - a, 3) for a, b in zip(seen, seen[1:])]
    print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=24)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--shape", type=int, nargs=4, default=[24, 2048, 5504, 32000])
    parser.add_argument("--keep", action="store_true", help="no recomputation")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        return run(options)
    for _ in range(options.turns):
        for way in options.ways:
            child = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--way", way],
                capture_output=True, text=True,
                env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": ""},
            )  # fmt: skip
            if child.returncode == 0:
                print(child.stdout.strip(), flush=True)
            else:
                why = (child.stderr.strip().splitlines() or ["killed"])[-1]
                print(json.dumps({"way": way, "failed": why[-300:]}), flush=True)
    return None


if __name__ == "__main__":
    main()
