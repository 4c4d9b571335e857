"""One process a GPU under torchrun, over NCCL: seven ways to train, native beside stalloc.

With one GPU there is one rank, which still opens NCCL and its streams; it is no pipeline.
"""

import functools
import json

import gpu
import rank_kinds

RUNS = {}


def ranks(*kinds, launcher=()):
    """What the ranks of the program say, started by torchrun with a rank a GPU."""
    same = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    status, lines = gpu.torchrun("ranks.py", *kinds, launcher=launcher, **same)
    assert status == 0, gpu.reason(lines)
    return json.loads([line for line in lines if line.startswith("[{")][-1])


def served(*kinds):
    ours = ranks(*kinds, launcher=("-m", "stalloc.run"))
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


if __name__ == "__main__":
    gpu.run(globals())
