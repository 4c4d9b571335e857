"""One process a GPU under torchrun, over NCCL: seven ways to train, native beside stalloc.

With one GPU there is one rank, which still opens NCCL and its streams; it is no pipeline. The last
checks are of one folder of plans for all ranks, which each start reads.
"""

import functools
import json
import tempfile
from pathlib import Path

import gpu
import rank_kinds

RUNS = {}


def ranks(*kinds, launcher=(), cache="off"):
    """What the ranks of the program say, started by torchrun with a rank a GPU."""
    same = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "STALLOC_CONF": f"cache:{cache}"}
    status, lines = gpu.torchrun("ranks.py", *kinds, launcher=launcher, **same)
    assert status == 0, gpu.reason(lines)
    return json.loads([line for line in lines if line.startswith("[{")][-1])


def served(*kinds, **more):
    ours = ranks(*kinds, launcher=("-m", "stalloc.run"), **more)
    assert all(rank["stalloc"] for rank in ours), "stalloc did not serve"
    return ours


def losses(run, kind):
    return [rank[kind]["losses"] for rank in run]


def check_native_twice():
    RUNS["native"], RUNS["again"] = ranks(), ranks()
    return f"{len(RUNS['native'])} ranks"


def check_stalloc():
    RUNS["stalloc"] = served()


def compare(kind):
    native, again, ours = (RUNS[name] for name in ("native", "again", "stalloc"))
    if kind not in native[0]:
        return "not run: there are no two GPUs"
    words = "two native runs differ"
    if losses(native, kind) == losses(again, kind):
        words = "losses as native's"
        assert losses(ours, kind) == losses(native, kind), (
            f"{losses(ours, kind)}, native {losses(native, kind)}"
        )

    def each(run, text):
        return ", ".join(text.format(**rank[kind]) for rank in run)

    return (
        f"{words}; waste {each(ours, '{waste:.1%}')}, native {each(native, '{waste:.1%}')}; steady "
        f"driver calls {each(ours, '{calls}')}, native {each(native, '{calls}')}; "
        f"from plans {each(ours, '{hits} of {requests}')}"
    )


for kind in rank_kinds.KINDS:
    globals()[f"check_{kind}"] = functools.partial(compare, kind)


def started_twice(kind):
    """The plans after each of two starts over one folder; the second is served no later."""
    with tempfile.TemporaryDirectory(prefix="stalloc-test-") as folder:
        kept, firsts = [], []
        for _ in range(2):
            run = served(kind, cache=folder)
            firsts.append([rank[kind]["first"] for rank in run])
            kept.append({path.name for path in Path(folder).iterdir()})
    told = f"served from step {firsts[0]} on, then {firsts[1]}; plans {[len(k) for k in kept]}"
    assert None not in firsts[0] + firsts[1], told
    assert all(then <= before for before, then in zip(*firsts)), told
    assert kept[0] <= kept[1], f"plans got lost: {kept[0] - kept[1]}"
    return kept[0], told


def check_ranks_that_are_alike_share_a_plan():
    plans, told = started_twice("ddp")
    assert len(plans) == 1, f"{sorted(plans)}; {told}"
    return told


def check_ranks_that_differ_leave_their_own():
    if gpu.devices() < 2:
        return "not run: there are no two GPUs"
    plans, told = started_twice("uneven")
    assert len(plans) >= gpu.devices(), f"{sorted(plans)}; {told}"
    return told


if __name__ == "__main__":
    gpu.run(globals())
