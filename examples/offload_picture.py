#!/usr/bin/env python3
"""What a step with offloaded optimizer states looks like: live tensors, what is on the host, what
the device holds, sampled each millisecond.

    python examples/offload_picture.py --json docs/data/offload-step.json    # 40 s on an H200

The model of offload_model.py as in offload_states.py: 24 GiB, 2 x 8 sequences of 2048, recomputed.
Keeps the samples from the beginning of an optimizer's step to the end of the next one, after as
many steps as it takes to learn. The exit status is 1 if more than the limit was held in a sample.
"""

import contextlib
import json
import sys
import threading
import time

import harness
import ledger
import offload_states

GIB = 1 << 30
EVERY = 0.001  # seconds


class Sampler(threading.Thread):
    """Samples what there is until it is stopped."""

    def __init__(self, stalloc):
        super().__init__(daemon=True)
        self.stalloc, self.samples, self.over = stalloc, [], threading.Event()

    def run(self):
        while not self.over.wait(EVERY):
            at, seen = time.perf_counter(), self.stalloc.stats()
            self.samples.append((at, seen.allocated, seen.asleep, seen.reserved))


def main():
    made = offload_states.parser(__doc__, steps=10, turns=1, ways=[])
    options = made.parse_args()
    if not options.json:
        made.error("name the picture's file: --json FILE")
    stalloc = harness.choose_allocator("stalloc")
    offload_states.limit(options.limit)
    import measure
    import offload_model
    import torch

    device = torch.device("cuda", 0)
    net, optimizer = offload_model.build(options, device)
    net.recompute = 1
    marks = []  # when an optimizer's step begins, and ends, on the host
    optimizer.register_step_pre_hook(lambda *_: marks.append(time.perf_counter()))
    stalloc.offload(optimizer)
    optimizer.register_step_post_hook(lambda *_: marks.append(time.perf_counter()))
    sampler, losses = Sampler(stalloc), []
    for number in range(options.steps):
        if number == options.steps - 2:
            sampler.start()
        some = offload_model.step(options, net, optimizer, number, device, contextlib.nullcontext)
        stalloc.step()
        losses += map(float, some)
    time.sleep(0.1)
    sampler.over.set()
    sampler.join()
    measure.require_sound(net, losses, stalloc)
    begin, end = marks[-4], marks[-1]
    picture = {
        **ledger.about({"device": torch.cuda.get_device_name(), "torch": torch.__version__}),
        "limit": options.limit, "optimizer": [round(1e3 * (at - begin), 2) for at in marks[-4:]],
        "samples": [
            [round(1e3 * (at - begin), 2), *(round(size / GIB, 3) for size in sizes)]
            for at, *sizes in sampler.samples if begin - 0.02 <= at <= end + 0.06
        ],
    }  # fmt: skip
    options.json.write_text(json.dumps(picture) + "\n")
    most = max(sizes[-1] for _, *sizes in sampler.samples)
    print(f"{len(sampler.samples)} samples, at most {most / GIB:.3f} GiB held")
    return int(most > options.limit * GIB)


if __name__ == "__main__":
    sys.exit(main())
