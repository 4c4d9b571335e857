"""Against the real PyTorch, on any machine: no GPU is needed for any of these."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.torch

# What each program below begins with: stalloc over the double of its library, as if there were
# a driver.
PRELUDE = """
import ctypes, sys, warnings
from stalloc import _library, _torch
_library.shim_path = lambda: sys.argv[1]
_torch._DRIVER = "libc.so.6"
import stalloc, torch
assert stalloc.enable(route="pluggable") is True
library = ctypes.CDLL(sys.argv[1])
library.stub_stats.restype = ctypes.POINTER(ctypes.c_uint64)
"""


def python(code, *args, prelude=PRELUDE):
    """Runs a program in a process of its own: PyTorch takes one allocator per process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, args)],
        env=environment, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def test_allocator_is_installed(stub):
    code = "print(torch.cuda.memory.get_allocator_backend(), torch.ones(2).sum().item())"
    assert python(code, stub.path).split() == ["pluggable", "2.0"]


def test_thrower_throws_what_cpp_can_catch(stub, compiled):
    catcher = compiled("catch.cc", "libcatch.so")
    code = """
    catcher = ctypes.CDLL(sys.argv[2])
    text = ctypes.create_string_buffer(4096)
    size = ctypes.c_size_t(1 << 41)
    assert catcher.catch_malloc(library.stalloc_malloc, size, text, ctypes.c_size_t(4096)) == 1
    print(text.value.decode().splitlines()[0])
    """
    assert python(code, stub.path, catcher).startswith("CUDA out of memory. This is the stub.")


def test_statistics(stub):
    code = """
    torch.cuda.is_initialized = torch.cuda.memory.is_initialized = lambda: True
    torch._C._accelerator_isAllocatorInitialized = lambda: True
    torch.cuda._initialized = True
    names = list(stalloc.Stats.__dataclass_fields__)
    def put(**values):
        for name, value in values.items():
            library.stub_stats()[names.index(name)] = value
    put(allocated=512, peak_allocated=1024, reserved=2 << 20, peak_reserved=4 << 20)
    assert torch.cuda.memory_allocated(0) == 512
    assert torch.cuda.max_memory_allocated(0) == 1024
    assert torch.cuda.memory_reserved(0) == 2 << 20
    assert torch.cuda.max_memory_reserved(0) == 4 << 20
    assert torch.cuda.memory_stats(0)["allocated_bytes.all.peak"] == 1024
    assert torch.cuda.memory_stats_as_nested_dict(0)["num_ooms"] == 0
    assert "1024 B" in torch.cuda.memory_summary(0)
    torch.cuda.reset_peak_memory_stats(0)
    assert torch.cuda.max_memory_allocated(0) == 512
    torch.cuda.reset_accumulated_memory_stats(0)
    """
    python(code, stub.path)


def test_we_have_each_statistic_of_the_native_allocator(stub):
    source = (
        "import torch, inspect, re\n"
        "text = inspect.getsource(torch.cuda.memory.memory_summary)\n"
        'print(*re.findall(r\'\\("(\\w+)", "\', text))'
    )
    from stalloc import Stats, _statistics

    shown = python(source, prelude="").split()
    assert len(shown) > 8
    assert set(shown) - {"all"} <= set(_statistics.nested(Stats(), Stats())) | {
        "large_pool",
        "small_pool",
    }


def test_refusals_come_with_a_remedy(stub):
    code = """
    try:
        torch.cuda.memory._snapshot()
    except RuntimeError as error:
        print(error)
    """
    said = python(code, stub.path)
    assert "does not yet support" in said and "stalloc.explain()" in said


def test_cudnn_benchmark_stays_off(stub):
    code = """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.backends.cudnn.benchmark = True
        with torch.backends.cudnn.flags(benchmark=True):
            assert torch.backends.cudnn.benchmark is False
    print(len(caught), torch.backends.cudnn.benchmark)
    """
    assert python(code, stub.path).split() == ["2", "False"]


def test_optimizer_s_step_is_a_boundary(stub):
    code = """
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        weight.sum().backward()
        optimizer.step()
    first = stalloc.stats().steps
    stalloc.step()
    optimizer.step()
    print(first, stalloc.stats().steps)
    """
    assert python(code, stub.path).split() == ["2", "3"]


def test_enable_before_and_after_import_of_torch(stub):
    for imports in ("import torch, stalloc", "import stalloc"):
        prelude = PRELUDE.replace("import stalloc, torch", imports)
        assert python("print(stalloc.is_enabled())", stub.path, prelude=prelude) == "True\n"


def test_example_trains_on_the_cpu(tmp_path):
    outputs = []
    for name in ("native", "stalloc"):
        output = tmp_path / f"{name}.json"
        command = [sys.executable, str(ROOT / "examples" / "train_llama.py"), "--tiny"]
        command += ["--steps", "4", "--eval-every", "2", "--batch-change", "3:2"]
        command += ["--allocator", name, "--json", str(output)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=environment)
        outputs.append(json.loads(output.read_text()))
    native, ours = outputs
    assert [s["loss_bits"] for s in native["steps"]] == [s["loss_bits"] for s in ours["steps"]]
    assert native["checksum"] == ours["checksum"]
    assert [s["phase"] for s in native["steps"]] == ["train", "train+eval", "train", "batch 2+eval"]
    assert native["steps"][-1]["loss"] != native["steps"][0]["loss"]


def test_pools_that_nccl_registers_are_heard_of():
    code = """
    import torch
    from stalloc import _nccl
    _nccl.watch(torch)
    group = getattr(torch._C._distributed_c10d, "ProcessGroupNCCL", None)
    for name in ("register_mem_pool", "deregister_mem_pool"):
        function = getattr(group, name, None)
        print(hasattr(function, "__wrapped__"), "symm: bool" in (function.__doc__ or ""))
    print(torch.version.cuda is not None, tuple(torch.cuda.graph_pool_handle())[0])
    """
    *functions, end = python(code, prelude="").splitlines()
    if end.startswith("True"):  # a build with CUDA has NCCL
        assert functions == ["True True", "True False"]
    assert end.endswith(" 0")
