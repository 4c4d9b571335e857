"""Training in CUDA graphs under stalloc, beside two runs under PyTorch's own allocator.

Programs of their own run the cases (programs/captured.py, programs/captured_models.py). Native's
two runs must have the same bits, or nothing can be said about ours. All takes at most LIMIT
seconds, and each row is printed as it comes. Arguments are the checks to make; without any: all."""

import sys
import time

import gpu
from test_pools import failures, results, waste

LIMIT = 300
SLOWER = 1.05  # the steps are short, and the machine is not alone
WASTE = 5  # %, of reduce-overhead
END = time.monotonic() + LIMIT


def compared(case, program="captured.py"):
    """What is wrong with ours beside two runs of native; and our row."""
    first = results(program, [case], "native", END)
    ours, second = (results(program, [case], a, END, first) for a in ("stalloc", "native"))
    wrong = failures(ours)
    for name, row in ours.items():
        others = [first[name], second[name]]
        if not row["ok"] or not all(other["ok"] for other in others):
            continue
        said, native = row["said"], [other["said"] for other in others]
        bits = [(x["losses"], x["bits"]) for x in native]
        if bits[0] != bits[1]:
            wrong.append(f"{name}: native's own runs differ, so the program says nothing of ours")
        elif (said["losses"], said["bits"]) != bits[0]:
            wrong.append(f"{name}: other bits than both of native's runs")
        for x in (said, *native):
            if abs(x["peak"] - x["counted"]) > x["counted"] / 100:
                wrong.append(f"{name}: {x['peak']} bytes lived, PyTorch counts {x['counted']}")
        if not native[0]["inside"] or native[0]["must"] < 0.99 * native[0]["peak"]:
            wrong.append(f"{name}: what must live is not what lived: {native[0]}")
        if said["reserved"] > 1.01 * max(x["reserved"] for x in native):
            wrong.append(f"{name}: reserves more than native")
        times = said["ms"] / max(x["ms"] for x in native)
        if times > SLOWER:
            wrong.append(f"{name}: a step takes {times:.2f} x native's time")
    return wrong, ours[case]


def captured(program, *cases):
    wrong = [text for case in cases for text in compared(case, program)[0]]
    assert not wrong, "; ".join(wrong)


def reduced_overhead(program, *cases):
    wrong = []
    for case in cases:
        found, row = compared(case, program)
        wrong += found
        if row["ok"] and waste(row["said"]) > WASTE:
            wrong.append(f"{case}: waste of {waste(row['said']):.1f} %")
    assert not wrong, "; ".join(wrong)


def check_captured_steps():
    captured("captured.py", "whole_step", "layer_by_layer")


def check_reduce_overhead():
    reduced_overhead("captured.py", "reduce_overhead", "reduce_overhead_of_three_shapes")


def check_llama():
    captured("captured_models.py", "llama_whole_step", "llama_layer_by_layer")


def check_gpt2():
    reduced_overhead("captured_models.py", "gpt2_reduce_overhead")


if __name__ == "__main__":
    asked = [f"check_{name}" for name in sys.argv[1:]]
    gpu.run({name: globals()[name] for name in asked} if asked else globals())
