"""What the programs of this folder tell when they end: losses, times, memory, weights."""

import hashlib
import json
import statistics
import time

import torch


class Report:
    """Collects what a training run does; end() prints it as the last line."""

    def __init__(self, device, warm=10):
        self.device, self.warm = torch.device(device), warm
        self.losses, self.times = [], []
        self.begin = self.now()

    def now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def step(self, loss):
        """A step has ended; what lies between two calls is its time."""
        now = self.now()
        self.times.append(now - self.begin)
        self.losses.append(float(torch.as_tensor(loss).detach()).hex())
        self.begin = now

    def evaluated(self, loss):
        """An evaluation has ended, which is no part of a step."""
        self.losses.append(float(torch.as_tensor(loss).detach()).hex())
        self.begin = self.now()

    def end(self, model):
        weights = hashlib.sha256()
        for value in model.state_dict().values():
            weights.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        on_gpu = self.device.type == "cuda"
        figures = {
            "losses": self.losses,
            "weights": weights.hexdigest(),
            "milliseconds": 1e3 * statistics.median(self.times[self.warm :]),
            "reserved": torch.cuda.max_memory_reserved() if on_gpu else 0,
            "allocated": torch.cuda.max_memory_allocated() if on_gpu else 0,
        }
        print(json.dumps(figures), flush=True)
