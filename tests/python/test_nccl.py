"""NCCL before its fix for buffers of several handles is recognised and warned of."""

import types

import pytest
from stalloc import StallocWarning, _nccl


def torch_with(*version):
    return types.SimpleNamespace(
        cuda=types.SimpleNamespace(nccl=types.SimpleNamespace(version=lambda: version))
    )


@pytest.mark.parametrize(
    ("version", "share", "wrong"),
    [
        ((2, 27, 5), "fd", True),
        ((2, 31, 2), "fabric", True),
        ((2, 31, 2, "rc1"), "fd", True),
        ((2, 31, 3), "fd", False),
        ((2, 32, 0), "fd", False),
        ((3, 0, 0), "fabric", False),
        ((2, 27, 5), "off", False),
        ((2, 27, 5), None, False),
    ],
)
def test_versions(version, share, wrong, monkeypatch):
    monkeypatch.delenv("NCCL_GRAPH_REGISTER", raising=False)
    why = _nccl.why_wrong(torch_with(*version), share)
    assert (why is not None) == wrong
    if why:
        assert f"NCCL {version[0]}.{version[1]}.{version[2]} " in why and f"share:{share}" in why
    monkeypatch.setenv("NCCL_GRAPH_REGISTER", "0")
    assert _nccl.why_wrong(torch_with(*version), share) is None


def test_pytorch_without_nccl():
    assert _nccl.why_wrong(types.SimpleNamespace(cuda=types.SimpleNamespace()), "fd") is None


def test_warned_of_once(process, monkeypatch):
    import stalloc

    monkeypatch.delenv("NCCL_GRAPH_REGISTER", raising=False)
    torch = process()
    torch.cuda.nccl = torch_with(2, 27, 5).cuda.nccl
    with pytest.warns(StallocWarning, match="NCCL 2.27.5") as heard:
        stalloc.enable(share="fd")
        stalloc.enable(share="fd")
    assert len(heard) == 1 and heard[0].filename == __file__
