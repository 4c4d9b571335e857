"""torch_memory_saver beside stalloc: in its process, or an engine in another that sleeps by it.

    savers.py beside preload|torch     with LD_PRELOAD as that package wants for the first
    savers.py beside torch native      the same, and nothing of ours
    savers.py turns                    a trainer under stalloc, beside an engine
    savers.py engine                   which sleeps or wakes for each line of its input

It prints a line of JSON with words for the table.
"""

import json
import subprocess
import sys

import torch

MIB, GIB = 1 << 20, 1 << 30
TURNS = 5


def free():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def sleeper(mode):
    from torch_memory_saver import torch_memory_saver

    torch_memory_saver.hook_mode = mode
    return torch_memory_saver


def beside(mode, allocator="stalloc"):
    """Both sleep in one process, each without and while the other does."""
    import stalloc

    serves = allocator == "stalloc" and stalloc.enable()
    assert serves or allocator == "native"
    saver, count = sleeper(mode), 64 * MIB
    ours = torch.arange(count, dtype=torch.int32, device="cuda")
    with saver.region(tag="weights", enable_cpu_backup=True):
        # No temporary: what its pool gives back outside a region ends the process.
        theirs = torch.arange(0, 2 * count, 2, dtype=torch.int32, device="cuda")
    torch.cuda.empty_cache()
    addresses, size, before = (ours.data_ptr(), theirs.data_ptr()), ours.nbytes, free()

    def right(tensor, times):
        want = torch.arange(count, dtype=torch.int32) * times
        return torch.equal(tensor.cpu(), want)

    saver.pause("weights")
    assert free() - before >= size, "torch_memory_saver gave nothing back"
    assert right(ours, 1), "ours lost values while theirs slept"
    theirs_asleep = free()
    if serves:
        assert stalloc.pause() >= size and free() - theirs_asleep >= size, "ours gave nothing back"
    both = free() - before
    saver.resume("weights")
    assert right(theirs, 2), "theirs lost values while ours slept"
    stalloc.resume()
    assert right(ours, 1) and (ours.data_ptr(), theirs.data_ptr()) == addresses
    stalloc.pause()
    assert right(theirs, 2)
    stalloc.resume()
    assert stalloc.stats().fallback == 0
    return f"{both / MIB:.0f} MiB went back while {'both' if serves else 'theirs'} slept"


def engine():
    """As vLLM does: weights are kept on the host while it sleeps, its cache is not."""
    saver, total = sleeper("torch"), torch.cuda.mem_get_info()[1]
    with saver.region(tag="weights", enable_cpu_backup=True):
        weights = torch.arange(256 * MIB, dtype=torch.int32, device="cuda")
    with saver.region(tag="cache"):
        cache = torch.empty(total * 6 // 10, dtype=torch.uint8, device="cuda")
    for line in sys.stdin:
        if line.strip() == "sleep":
            torch.cuda.synchronize()
            saver.pause()
        else:
            saver.resume()
            cache.fill_(0x5A)
            assert int(weights[-1]) == 256 * MIB - 1 and int(cache[-1]) == 0x5A
        print("done", flush=True)


class Engine:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "engine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, word):
        print(word, file=self.process.stdin, flush=True)
        for said in self.process.stdout:
            if said.strip() == "done":
                return
        raise AssertionError(f"the engine has ended before it could {word}")

    def ends(self):
        self.process.stdin.close()
        self.process.wait(60)


def losses(stalloc, before, after):
    """Of steps of a small model with a large block of activations, and something around each."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    total, found = torch.cuda.mem_get_info()[1], []
    for _ in range(TURNS):
        after()
        activations = torch.zeros(total // 2, dtype=torch.uint8, device="cuda")
        x = torch.randn(256, 2048, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
        del activations
        stalloc.step()
        before()
    return found


def turns():
    """Trainer and engine have more than the device together, and sleep in turns."""
    import stalloc

    assert stalloc.enable()
    torch.use_deterministic_algorithms(True, warn_only=True)
    alone = losses(stalloc, lambda: None, lambda: None)
    torch.cuda.empty_cache()
    other, least = Engine(), []
    other.do("sleep")

    def generates():
        stalloc.pause()
        least.append(free())
        other.do("wake")
        other.do("sleep")

    assert losses(stalloc, generates, stalloc.resume) == alone, "losses differ beside an engine"
    other.ends()
    return f"{TURNS} turns, the same losses; {min(least) / GIB:.1f} GiB free for the engine"


if __name__ == "__main__":
    which, *more = sys.argv[1:]
    if words := {"beside": beside, "turns": turns, "engine": engine}[which](*more):
        print(json.dumps({"words": words}), flush=True)
