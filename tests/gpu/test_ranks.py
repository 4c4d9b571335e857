"""One process a GPU under torchrun: DDP and FSDP2 over NCCL, unmodified, native beside stalloc.

With one GPU there is one rank, which still opens NCCL and its streams.
"""

import json

import gpu


def ranks(*launcher):
    """What rank 0 of the program says, started by torchrun with a rank a GPU."""
    same = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "STALLOC_CONF": "cache:off"}
    status, lines = gpu.torchrun("ranks.py", launcher=launcher, **same)
    assert status == 0, gpu.reason(lines)
    return json.loads([line for line in lines if line.startswith("{")][-1])


RUNS = {}


def check_native_twice():
    RUNS["native"], again = ranks(), ranks()
    RUNS["same"] = [key for key in ("ddp", "fsdp2") if RUNS["native"][key] == again[key]]
    return (
        f"{again['world']} ranks; the same bits in both runs: {', '.join(RUNS['same']) or 'none'}"
    )


def check_stalloc():
    ours, native = ranks("-m", "stalloc.run"), RUNS["native"]
    assert ours["stalloc"], "stalloc did not serve"
    for key in RUNS["same"]:
        assert ours[key] == native[key], f"{key}: {ours[key]}, native {native[key]}"
    waste = [1 - run["allocated"] / run["reserved"] for run in (native, ours)]
    return (
        f"losses as native's; waste {waste[1]:.1%}, native {waste[0]:.1%}; "
        f"{ours['hits']} of {ours['requests']} from plans"
    )


gpu.run(globals())
