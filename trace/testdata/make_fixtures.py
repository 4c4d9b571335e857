"""Writes the snapshots that the tests of stalloc/trace read, and what they mean.

    python3 make_fixtures.py        (from this folder; the output is the same every time)

snapshot.p2.pickle.gz ... snapshot.p5.pickle.gz  one snapshot, laid out as PyTorch
    2.11 lays it out, in every pickle protocol the reader knows
snapshot.csv  the events it stands for, written from the simulated program
    itself and not from the snapshot, so that both sides can be wrong alone
slow.p4.pickle  the same, but not zipped, not framed, and by Python's own pickler
    and not C's
code.pickle   a pickle that holds an object, which the reader must refuse
"""

import collections
import gzip
import pickle
import random

WEIGHTS = 12  # blocks that live from the start to the end
SIDE_STREAM = 0x7F3A5C001230
BASE = 0x7F1200000000
RING = 1100  # events kept: more than one batch of the pickler (1000)


class Program:
    """A device with two segments of equal slots, and its whole history."""

    def __init__(self, seed, device):
        self.rng = random.Random(seed)
        self.device = device
        self.time = 1_700_000_000_000_000
        self.history = []  # (action, block)
        self.live = []
        self.used = set()

    def event(self, action, block):
        self.time += self.rng.randrange(1, 90)
        self.history.append((action, block, self.time))

    def alloc(self):
        segment = self.rng.randrange(2)
        slot = min(set(range(64)) - {s for g, s in self.used if g == segment})
        self.used.add((segment, slot))
        block = {
            "segment": segment,
            "slot": slot,
            "addr": BASE + (segment << 32) + (slot << 22),
            "asked": self.rng.randrange(1, 1 << 22),
            "stream": 0 if segment == 0 else SIDE_STREAM,
            "state": "active_allocated",
        }
        self.live.append(block)
        self.event("alloc", block)

    def free(self, place=None, complete=True):
        n = self.rng.randrange(WEIGHTS, len(self.live)) if place is None else place
        block = self.live.pop(n)
        self.event("free_requested", block)
        block["state"] = "active_pending_free"
        if complete:
            self.event("free_completed", block)
            self.used.remove((block["segment"], block["slot"]))
        else:
            self.pending.append(block)

    def run(self, steps):
        self.pending = []
        for _ in range(30):
            self.alloc()
        for _ in range(steps):
            if len(self.live) < 20 or (len(self.live) < 50 and self.rng.random() < 0.5):
                self.alloc()
            else:
                self.free()
        self.free(complete=False)  # its alloc is in the ring
        self.free(place=3, complete=False)  # its alloc is not


def snapshot(program):
    rng = random.Random(7)
    shared = [[{"filename": f"/home/user/model_{i}.py", "line": i, "name": "layer"}]
              for i in range(5)]
    trace = []
    for action, block, time in program.history[-RING:]:
        trace.append({
            "action": action, "addr": block["addr"], "size": block["asked"],
            "stream": block["stream"],
            "time_us": time, "compile_context": "N/A", "user_metadata": "",
            "frames": rng.choice(shared),
        })
        if rng.random() < 0.05:
            trace.append({
                "action": rng.choice(["segment_alloc", "segment_map", "segment_free"]),
                "addr": BASE + (9 << 32),
                "size": 2 << 20, "stream": 0, "time_us": time, "frames": [],
            })
    trace.append({
        "action": "oom", "device_free": 1 << 30, "size": 1 << 50, "stream": 0,
        "time_us": trace[-1]["time_us"], "frames": [],
    })
    segments = []
    for number in range(2):
        owned = {b["slot"]: b for b in program.live + program.pending if b["segment"] == number}
        blocks = []
        for slot in range(64):
            b = owned.get(slot)
            address = BASE + (number << 32) + (slot << 22)
            blocks.append({
                "address": address, "size": 1 << 22, "requested_size": b["asked"] if b else 0,
                "state": b["state"] if b else "inactive", "frames": [],
            })
        segments.append({
            "device": program.device, "address": BASE + (number << 32), "total_size": 64 << 22,
            "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": 0 if number == 0 else SIDE_STREAM, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": number == 1, "frames": [], "blocks": blocks,
        })
    return {
        "segments": segments,
        "device_traces": [[], trace, []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1,
            "garbage_collection_threshold": 0.0, "expandable_segments": True,
            "roundup_power2_divisions": {"1": 0, "64": 0},
        },
        "external_annotations": [],
        "note": "x" * 70_000,  # longer than a frame: written outside of any
        "big": [1 << 70, -(1 << 70), -1, -(1 << 31), (1 << 63) - 1, 0.5, None, True, False],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    }


def expected(program):
    """The trace that the program's history and the ring's length stand for."""
    kept = program.history[-RING:]
    here = {id(b) for action, b, _ in kept if action == "alloc"}
    ids, streams, lines = {}, {0: 0}, ["# workload snapshot device 1"]

    def alloc(block, time):
        ids[id(block)] = len(ids)
        stream = streams.setdefault(block["stream"], len(streams))
        lines.append(f"a,{ids[id(block)]},{block['asked']},{stream},{time}")

    older = [b for b in program.live + program.pending if id(b) not in here]
    older.sort(key=lambda b: b["addr"])
    if older:
        lines.append("# setup")
    for block in older:
        alloc(block, 0)
    skipped = 0
    for action, block, time in kept:
        time -= kept[0][2]
        if action == "alloc":
            alloc(block, time)
        elif id(block) in ids:
            lines.append(f"{'r' if action == 'free_requested' else 'f'},{ids[id(block)]},{time}")
        else:
            skipped += 1
    lines.append(f"# skipped {skipped}")
    return "\n".join(lines) + "\n"


def main():
    program = Program(seed=11, device=1)
    program.run(3000)
    state = snapshot(program)
    for protocol in (2, 3, 4, 5):
        if protocol > 2:  # protocol 2 has no opcode for bytes
            state["raw"] = [b"", b"\x00" * 300, b"y" * 70_000]
        data = pickle.dumps(state, protocol=protocol)
        with open(f"snapshot.p{protocol}.pickle.gz", "wb") as out:
            out.write(gzip.compress(data, mtime=0))
    del state["note"], state["raw"]
    with open("slow.p4.pickle", "wb") as out:
        slow = pickle._Pickler(out, protocol=4)
        slow.framer.start_framing = lambda: None
        slow.framer.commit_frame = lambda force=False: None
        slow.dump(state)
    with open("snapshot.csv", "w", encoding="utf-8", newline="\n") as out:
        out.write(expected(program))
    with open("code.pickle", "wb") as out:
        pickle.dump({"segments": [], "device_traces": [collections.OrderedDict(a=1)]}, out,
                    protocol=4)


if __name__ == "__main__":
    main()
