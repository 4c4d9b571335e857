"""What explain() and pause() name of what stays awake: each kind of private pool, in bytes."""

import sys
import types

import pytest
from stalloc import _adapter_build, _nccl
from test_adapter import double, machine  # noqa: F401

MIB = 1 << 20


class Group:
    """torch._C._distributed_c10d.ProcessGroupNCCL."""

    def register_mem_pool(self, pool, symm=False):
        if pool.id == (0, 99):
            raise RuntimeError("no such pool")
        return "registered"

    def deregister_mem_pool(self, pool):
        return "over"


def pool(*identity):
    return types.SimpleNamespace(id=identity)


@pytest.fixture
def group(monkeypatch):
    """A process group under a fresh enable()."""
    monkeypatch.setattr(_nccl, "pools", {})
    made = type("ProcessGroupNCCL", (Group,), {})
    module = types.SimpleNamespace(ProcessGroupNCCL=made)
    _nccl.watch(types.SimpleNamespace(_C=types.SimpleNamespace(_distributed_c10d=module)))
    return made()


@pytest.fixture
def hold(machine, stub, group):  # noqa: F811
    """hold(first, second, bytes): a pool of PyTorch's own allocator has memory."""
    from ctypes import c_ulonglong

    import stalloc

    assert stalloc.enable(log="info") and stalloc.route() == "adapter"
    library = double(_adapter_build.find(machine.torch))
    stub.set_text("the library's own part\n")
    return lambda *figures: library.stub_hold(*map(c_ulonglong, figures))


def test_nothing_is_held(hold, capfd):
    import stalloc

    assert stalloc.explain() == "the library's own part\n"
    stalloc.pause()
    assert "awake" not in capfd.readouterr().err


def test_each_kind_is_named(hold, group, monkeypatch, capfd):
    import stalloc

    symmetric = types.SimpleNamespace(_symm_mem_pools={"cuda:0": pool(0, 4)})
    monkeypatch.setitem(sys.modules, "torch.distributed._symmetric_memory", symmetric)
    group.register_mem_pool(pool(0, 1))
    group.register_mem_pool(pool(0, 2), symm=True)
    group.register_mem_pool(pool(0, 3), True)
    for n, identity in enumerate([(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (6, 0), (7, 0)]):
        hold(*identity, (n + 1) * MIB)
    assert stalloc.explain().split("\n\n", 1)[1].splitlines() == [
        "Awake when the rest sleeps, of private pools and PyTorch's own allocator:",
        "  older than stalloc, or moved           1.00 MiB  1 pool",
        "  registered with NCCL                   2.00 MiB  1 pool",
        "  NCCL's windows                         7.00 MiB  2 pools",
        "  symmetric memory                       5.00 MiB  1 pool",
        "  MemPools, pools that graphs share      6.00 MiB  1 pool",
        "  CUDA graphs                           15.00 MiB  2 pools",
    ]
    capfd.readouterr()
    stalloc.pause()
    assert capfd.readouterr().err == (
        "stalloc: cuda:0: these pools stay awake: older than stalloc, or moved "
        "1.00 MiB (1 pool), registered with NCCL 2.00 MiB (1 pool), NCCL's windows 7.00 MiB "
        "(2 pools), symmetric memory 5.00 MiB (1 pool), MemPools, pools that graphs share "
        "6.00 MiB (1 pool), CUDA graphs 15.00 MiB (2 pools)\n"
    )


def test_only_with_log_info(hold, capfd, monkeypatch):
    import stalloc

    hold(0, 5, MIB)
    monkeypatch.setenv("STALLOC_CONF", "log:warn")
    stalloc.pause()
    assert capfd.readouterr().err == ""


def test_what_is_registered(group):
    assert group.register_mem_pool(pool(0, 1)) == "registered"
    assert group.register_mem_pool(pool(0, 1), symm=True) == "registered"
    with pytest.raises(RuntimeError, match="no such pool"):
        group.register_mem_pool(pool(0, 99))
    assert _nccl.pools == {(0, 1): [False, True]}
    assert group.deregister_mem_pool(pool(0, 1)) == "over"
    assert list(_nccl.pools) == [(0, 1)]
    group.deregister_mem_pool(pool(0, 1))
    group.deregister_mem_pool(pool(0, 1))
    assert _nccl.pools == {}


def test_pytorch_without_nccl():
    _nccl.watch(types.SimpleNamespace(_C=types.SimpleNamespace()))
    older = types.SimpleNamespace(ProcessGroupNCCL=type("ProcessGroupNCCL", (), {}))
    _nccl.watch(types.SimpleNamespace(_C=types.SimpleNamespace(_distributed_c10d=older)))
    assert vars(older.ProcessGroupNCCL).get("register_mem_pool") is None
