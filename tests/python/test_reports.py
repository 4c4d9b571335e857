"""Programs of public reports on a CPU, as if an allocator wasted nothing; and their page."""

import contextlib
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu" / "reports")]

import case  # noqa: E402
import fragments  # noqa: E402, F401
import page  # noqa: E402
import pools  # noqa: E402, F401
import running_out  # noqa: E402, F401
import streams  # noqa: E402, F401

UNIT = 1024  # bytes for a MiB
# What an allocator does itself: pools, captures, running out.
GPU_ONLY = {
    "pool_in_pool", "failed_captures", "capture_estimate", "shared_captures", "full_capture",
    "full_device", "smaller_batch", "advice", "sums", "history", "pinned",
}  # fmt: skip
# These draw on the order of threads.
ESTIMATED = {"threads"}


def counting(torch):
    """PyTorch as if there were a GPU whose allocator wastes nothing, and what it counted."""
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    seen = types.SimpleNamespace(live={}, peak=0)

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, f, types, args=(), kwargs=None):
            result = f(*args, **(kwargs or {}))
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor):
                    storage = tensor.untyped_storage()
                    weak = StorageWeakRef(storage)
                    seen.live.setdefault(weak.cdata, (weak, storage.nbytes()))
            seen.peak = max(seen.peak, now())
            return result

    def now():
        for key in [key for key, (weak, _) in seen.live.items() if weak.expired()]:
            del seen.live[key]
        return sum(size for _, size in seen.live.values() if size >= UNIT // 8)

    class Stream:
        def __getattr__(self, name):
            return lambda *_: None

    def null(*_, **__):
        return contextlib.nullcontext()

    def mib(quantity):
        return lambda: quantity() * case.MIB // UNIT

    class Pool:
        def snapshot(self):
            return [{"address": 0, "total_size": 1 << 60}]

    class Torch:
        def __getattr__(self, name):
            return getattr(torch, name)

    fake = Torch()
    fake.cuda = types.SimpleNamespace(
        Stream=Stream, current_stream=Stream, stream=null, synchronize=lambda: None,
        empty_cache=lambda: None, memory_reserved=mib(now), memory_allocated=mib(now),
        max_memory_allocated=lambda: seen.peak, max_memory_reserved=lambda: seen.peak,
        memory_stats=dict, _sleep=lambda _: None, MemPool=Pool, use_mem_pool=null, graph=null,
        CUDAGraph=lambda: types.SimpleNamespace(pool=lambda: 1), mem_get_info=lambda: (0, 0),
    )  # fmt: skip
    return fake, Count(), seen


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(set(case.CASES) - GPU_ONLY))
def test_an_allocator_that_wastes_nothing_does_what_was_expected(name, monkeypatch):
    import torch

    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    about = case.CASES[name]
    fake, count, seen = counting(torch)
    with count:
        about.program(case.Context(fake, "native", "cpu", UNIT))
    if about.live and name not in ESTIMATED:
        assert about.live == -(-seen.peak // UNIT), "the peak load that its limit is made from"


def test_there_are_twenty_reports_and_each_is_told():
    assert len(case.CASES) >= 20
    for about in case.CASES.values():
        assert all(report.count("/") == report.count("#") == 1 for report in about.reports)
        assert about.pattern and about.expected and "|" not in about.pattern + about.expected


def test_the_page_is_what_was_measured():
    rows = page.kept(ROOT / "docs" / "data" / "reports.jsonl")
    assert (ROOT / "docs" / "reports.md").read_text() == page.text(list(case.CASES.values()), rows)


def test_a_row_says_in_a_word_how_it_fails(tmp_path):
    lines = [
        '{"name": "comb", "allocator": "native", "ok": true, "reason": "", "date": "d"}',
        '{"name": "comb", "allocator": "native", "ok": false, "reason": "grows"}',
        '{"name": "comb", "allocator": "stalloc", "ok": true, "reason": ""}',
        '{"name": "co',
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))  # fmt: skip
    text = page.text(list(case.CASES.values()), page.kept(tmp_path / "r.jsonl"))
    assert "| **fails**: grows | – | ok |" in text and "`growing_cache`" not in text
    assert "https://github.com/meta-pytorch/torchrec/issues/4584" in text
    assert "of 1: native 0, expandable segments 0, stalloc 1." in text
