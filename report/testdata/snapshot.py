"""Writes snapshot.pickle beside itself: what PyTorch's memory snapshot looks like, with stacks.

One of the file names is markup, which a report must show as text.
"""

import pathlib
import pickle

MIB = 1 << 20


def stack(*lines):
    return [{"filename": file, "line": line, "name": name} for file, line, name in lines]


TORCH = ("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 125, "forward")
WEIGHTS = stack(("/home/me/model.py", 10, "__init__"), ("/home/me/train.py", 3, "<module>"))
FORWARD = stack(TORCH, ("/home/me/model.py", 42, "forward"), ("/home/me/train.py", 9, "step"))
LOSS = stack(("</script><img src=x onerror=document.title=1>.py", 7, "loss"))

events, live, clock = [], {}, 1_700_000_000_000_000


def note(action, address, size):
    global clock
    clock += 20
    frames = live[address][1]
    events.append(
        {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": clock,
            "frames": frames,
        }
    )


def alloc(size, frames):
    address = next(
        a
        for a in range(1 << 30, 1 << 40, MIB)
        if all(a + size <= b or b + s <= a for b, (s, _) in live.items())
    )
    live[address] = size, frames
    note("alloc", address, size)
    return address


def free(address):
    note("free_requested", address, live[address][0])
    note("free_completed", address, live[address][0])
    del live[address]


weights = [alloc(8 * MIB, WEIGHTS) for _ in range(4)]
for _ in range(3):
    activations = [alloc(5 * MIB, FORWARD) for _ in range(12)]
    free(alloc(30 * MIB, LOSS))
    for address in reversed(activations):
        free(address)

blocks = [
    {"address": a, "size": s, "requested_size": s, "state": "active_allocated", "frames": f}
    for a, (s, f) in live.items()
]
snapshot = {
    "segments": [{"device": 0, "address": 1 << 30, "stream": 0, "blocks": blocks}],
    "device_traces": [events],
}
pathlib.Path(__file__).with_suffix(".pickle").write_bytes(pickle.dumps(snapshot))
