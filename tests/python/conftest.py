"""Fixtures: compiled test doubles of the native library and of PyTorch.

Tests marked `torch` need the real PyTorch. Where it is not installed they are deselected, and
the summary says how many.
"""

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faketorch import FakeTorch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

from recording import history, recorded  # noqa: E402, F401  fixtures

HAVE_TORCH = importlib.util.find_spec("torch") is not None


def pytest_configure(config):
    config.addinivalue_line("markers", "torch: needs the real PyTorch")


def pytest_collection_modifyitems(config, items):
    if HAVE_TORCH:
        return
    needing = [item for item in items if item.get_closest_marker("torch")]
    if needing:
        items[:] = [item for item in items if item not in needing]
        config.hook.pytest_deselected(items=needing)
        config.stash[DESELECTED] = len(needing)


DESELECTED = pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    count = config.stash.get(DESELECTED, 0)
    if count:
        terminalreporter.write_line(
            f"{count} tests need PyTorch, which is not installed here: deselected"
        )


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled(source, name): builds a shared library from a file of this folder."""
    folder = tmp_path_factory.mktemp("doubles")

    def build(source, name, where=None):
        out = (where or folder) / name
        compiler = {".c": "CC", ".cc": "CXX"}[Path(source).suffix]
        command = [os.environ.get(compiler, {"CC": "gcc", "CXX": "g++"}[compiler])]
        command += ["-shared", "-fPIC", "-fexceptions", "-Wall", "-Wextra", "-Werror"]
        command += [f"-I{ROOT / 'cshim'}", "-o", str(out), str(HERE / source)]
        subprocess.run(command, check=True)
        return out

    return build


@pytest.fixture(scope="session")
def c10(compiled, tmp_path_factory):
    """A folder that looks like site-packages/torch."""
    folder = tmp_path_factory.mktemp("torch")
    (folder / "lib").mkdir()
    return compiled("stub_c10.c", "libc10.so", folder / "lib").parent.parent


class Stub:
    """The double of libstalloc.so and the handles on its state."""

    def __init__(self, path):
        self.path = path
        self._lib = ctypes.CDLL(str(path))
        self._lib.stub_stats.restype = ctypes.POINTER(ctypes.c_uint64)
        self._lib.stub_stats_size.restype = ctypes.c_size_t
        self._lib.stub_conf.restype = ctypes.c_char_p
        self._lib.stub_calls.restype = ctypes.c_char_p

    def set(self, **values):
        """Sets counters by the names they have in Python."""
        from stalloc import Stats

        names = list(Stats.__dataclass_fields__)
        for name, value in values.items():
            self._lib.stub_stats()[names.index(name)] = value

    def fill(self):
        """Sets the counters to 1, 2, 3, ... in the order of the C struct; returns how many."""
        count = self._lib.stub_stats_size() // 8
        for place in range(count):
            self._lib.stub_stats()[place] = place + 1
        return count

    def set_text(self, text):
        self._lib.stub_set_text(text.encode())

    @property
    def conf(self):
        return self._lib.stub_conf().decode()

    @property
    def calls(self):
        return self._lib.stub_calls().decode().split()


@pytest.fixture
def stub(compiled, tmp_path):
    # A file of its own for every test: the loader would hand out the same state again.
    return Stub(compiled("stub_stalloc.c", "libstalloc.so", tmp_path))


@pytest.fixture
def process(stub, c10, monkeypatch):
    """A process as enable() finds it: fresh, with PyTorch, a driver and the library.

    process(...) makes the fake PyTorch, with FakeTorch's arguments.
    """
    from stalloc import _library, _route, _session, _torch

    monkeypatch.setattr(_session, "_session", _session._Session())
    monkeypatch.setattr(_library, "shim_path", lambda: stub.path)
    monkeypatch.setattr(_torch, "_DRIVER", "libc.so.6")  # some library that is there
    monkeypatch.setattr(_route, "DEFAULT", _route.PLUGGABLE)  # test_adapter.py has the other
    monkeypatch.setenv("STALLOC_CONF", "")
    monkeypatch.delenv("STALLOC_CONF")

    def start(**options):
        torch = FakeTorch(c10, **options)
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.optim.optimizer", torch.optimizers)
        return torch

    return start


@pytest.fixture
def torch(process):
    """PyTorch with CUDA started, which stalloc serves."""
    import stalloc

    torch = process()
    stalloc.enable()
    torch.start_cuda()
    return torch
