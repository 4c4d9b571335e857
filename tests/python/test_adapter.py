"""Which adapter is taken, when it is compiled, and what happens where there is none."""

import ctypes
import os
import stat
import subprocess
import tempfile
import threading
import types
from pathlib import Path

import pytest
from stalloc import StallocError, StallocWarning, _adapter_build, _route

HERE = Path(__file__).resolve().parent

# What stands in for g++: it notes its arguments and compiles the double.
COMPILER = """#!/bin/sh
echo "$@" >> {log}
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
{delay}exec gcc -shared -fPIC {flags} {stub} -o "$out"
"""


@pytest.fixture
def machine(process, tmp_path, monkeypatch):
    """A process with PyTorch's headers, a compiler and an empty cache; wants the adapter."""
    torch = process()
    site = tmp_path / "site" / "torch"
    site.mkdir(parents=True)
    (site / "lib").symlink_to(Path(torch.__file__).parent / "lib")
    torch.__file__ = str(site / "__init__.py")
    headers = tmp_path / "site" / "nvidia" / "cu13" / "include"
    headers.mkdir(parents=True)
    (headers / "cuda_runtime_api.h").touch()
    sources = tmp_path / "lib" / "torch"
    sources.mkdir(parents=True)
    for name in _adapter_build.SOURCES:
        (sources / name).write_text(name)
    monkeypatch.setattr(_adapter_build, "folder", lambda: sources)
    monkeypatch.setattr(_route, "DEFAULT", _route.AUTO)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    log = tmp_path / "compiler.log"

    def compiler(flags="", delay=""):
        script = tmp_path / "compiler"
        stub = HERE / "stub_adapter.c"
        script.write_text(COMPILER.format(log=log, flags=flags, delay=delay, stub=stub))
        script.chmod(0o755)
        monkeypatch.setenv("CXX", str(script))

    compiler()
    calls = lambda: log.read_text().splitlines() if log.exists() else []  # noqa: E731
    torch.UntypedStorage = type("UntypedStorage", (), {"_share_cuda_": lambda self: "shared"})
    return types.SimpleNamespace(torch=torch, compiler=compiler, calls=calls, sources=sources)


def double(path):
    library = ctypes.CDLL(str(path))
    library.stub_library.restype = ctypes.c_char_p
    library.stub_moved.restype = ctypes.c_void_p
    return library


def test_adapter_is_installed_and_nothing_is_patched(machine, stub):
    import stalloc

    statistics = machine.torch._C._cuda_memoryStats
    assert stalloc.enable() and stalloc.route() == "adapter"
    assert machine.torch.installed is None
    assert machine.torch._C._cuda_memoryStats is statistics
    installed = double(_adapter_build.find(machine.torch))
    assert installed.stub_library().decode() == str(stub.path)


def test_closed_adapter_serves_no_more(machine, stub):
    import stalloc

    stalloc.enable()
    stalloc.close()
    assert double(_adapter_build.find(machine.torch)).stub_closes() == 1
    assert stub.calls == ["close"]


def test_late_is_no_error(machine):
    import stalloc

    machine.torch.start_cuda()
    assert stalloc.enable() and stalloc.route() == "adapter"


def test_compiled_once(machine, capfd):
    path = _adapter_build.find(machine.torch)
    assert _adapter_build.find(machine.torch) == path and len(machine.calls()) == 1
    said = capfd.readouterr().err
    assert "compiling the adapter for PyTorch 2.11.0" in said and len(said.splitlines()) == 1
    assert "-lc10_cuda" in machine.calls()[0]
    assert str(Path("nvidia") / "cu13" / "include") in machine.calls()[0]
    machine.torch.__version__ = "2.12.0"
    assert _adapter_build.find(machine.torch) != path and len(machine.calls()) == 2
    (machine.sources / "adapter.cc").write_text("changed")
    _adapter_build.find(machine.torch)
    assert len(machine.calls()) == 3


def test_compiled_before_in_a_folder_that_is_read_only_now(machine, monkeypatch):
    path = _adapter_build.find(machine.torch)
    monkeypatch.setattr(_adapter_build.os, "access", lambda path, mode: mode != os.W_OK)
    assert _adapter_build.find(machine.torch) == path and len(machine.calls()) == 1
    path.parents[1].chmod(0o777)
    with pytest.raises(_adapter_build.Unavailable, match="others may write it"):
        _adapter_build.find(machine.torch)


@pytest.mark.parametrize("base", ["", "cache"])
def test_no_folder_of_the_user(machine, monkeypatch, tmp_path, base):
    """Without HOME and a name, and with a relative one: nothing is made where the program runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    path = _adapter_build.find(machine.torch)
    assert path.parents[1].parent == tmp_path and not list(work.iterdir())


def test_many_processes_compile_once(machine):
    machine.compiler(delay="sleep 0.3; ")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(_adapter_build.find(machine.torch)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(machine.calls()) == 1


@pytest.fixture
def prebuilt(machine):
    path = machine.sources.parent / "adapters" / "torch2.11-abi1.so"
    path.parent.mkdir()
    command = ["gcc", "-shared", "-fPIC", str(HERE / "stub_adapter.c"), "-o", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.mark.parametrize("build", ["2.11.0", "2.11.1+cu126"])
def test_prebuilt_comes_first(machine, prebuilt, build):
    machine.torch.__version__ = build
    assert _adapter_build.find(machine.torch) == prebuilt and machine.calls() == []


@pytest.mark.parametrize("build", ["2.11.0a0+gitd9f8b1c", "2.11.0.dev20260101+cu128", "2.12.0"])
def test_prebuilt_is_for_a_release(machine, prebuilt, build):
    machine.torch.__version__ = build
    assert _adapter_build.find(machine.torch) != prebuilt and len(machine.calls()) == 1


def test_prebuilt_that_does_not_load(machine, prebuilt):
    prebuilt.write_bytes(b"\x7fELF, of another machine")
    assert _adapter_build.find(machine.torch) != prebuilt and len(machine.calls()) == 1


FAILURES = {
    "no compiler": ("CXX", "/nowhere/g++", "/nowhere/g++"),
    "an error": ("CXX", "sh -c 'echo adapter.cc:3: error: no such class; exit 1'", "no such class"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_falls_back_with_one_line(machine, monkeypatch, name):
    import stalloc

    variable, value, said = FAILURES[name]
    monkeypatch.setenv(variable, value)
    with pytest.warns(StallocWarning, match=said) as caught:
        assert stalloc.enable()
    assert len(caught) == 1 and len(str(caught[0].message).splitlines()) == 1
    assert stalloc.route() == "pluggable" and machine.torch.installed is not None


@pytest.mark.parametrize(
    ("flags", "said"),
    [("-DREFUSES", "cudaMallocAsync"), ("'-DTORCH=\"2.10.1\"'", "made for PyTorch 2.10.1")],
)
def test_adapter_that_does_not_fit(machine, flags, said):
    import stalloc

    machine.compiler(flags)
    with pytest.warns(StallocWarning, match=said):
        assert stalloc.enable()
    assert stalloc.route() == "pluggable"


def test_wanted_and_not_there(machine, monkeypatch):
    import stalloc

    monkeypatch.setenv("CXX", "false")
    with pytest.raises(StallocError, match="no adapter: the adapter cannot be compiled, see "):
        stalloc.enable(route="adapter")
    assert not stalloc.is_enabled() and stalloc.route() == ""


def test_settings_are_not_read_before_a_route_is_there(machine, stub, monkeypatch):
    """The library reads them once: a second try with other settings would go by the first's."""
    import stalloc

    monkeypatch.setenv("CXX", "/nowhere/g++")
    with pytest.raises(StallocError, match="no adapter"):
        stalloc.enable(route="adapter", limit="1GiB")
    machine.torch.start_cuda()
    with pytest.raises(StallocError, match="first tensor"):
        stalloc.enable(route="pluggable", limit="2GiB")
    assert stub.conf == ""
    machine.compiler()
    assert stalloc.enable(limit="3GiB") and stub.conf == "limit:3GiB"


def test_too_late_for_the_other_route(machine, monkeypatch):
    import stalloc

    monkeypatch.setenv("CXX", "false")
    machine.torch.start_cuda()
    with pytest.raises(StallocError, match="already been started.*cannot be compiled"):
        stalloc.enable()


def test_pluggable_is_taken_if_asked_for(machine):
    import stalloc

    assert stalloc.enable(route="pluggable") and stalloc.route() == "pluggable"
    assert machine.calls() == []


def test_old_pytorch(machine):
    machine.torch.__version__ = "2.5.1+cu124"
    with pytest.raises(_adapter_build.Unavailable, match="2.5.1.* is older than 2.6"):
        _adapter_build.find(machine.torch)


def test_headers_are_missing(machine, monkeypatch):
    machine.torch.version.cuda = "12.4"
    monkeypatch.setattr(_adapter_build.sys, "path", [])
    monkeypatch.setattr(
        _adapter_build.Path, "is_file", lambda path: path.name != "cuda_runtime_api.h"
    )
    with pytest.raises(_adapter_build.Unavailable, match="nvidia-cuda-runtime-cu12"):
        _adapter_build.cuda_headers(machine.torch)


def test_a_strangers_adapter_is_refused(machine):
    path = _adapter_build.find(machine.torch)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o002)
    with pytest.raises(_adapter_build.Unavailable, match="others may write it"):
        _adapter_build.find(machine.torch)


def test_storage_moves_before_it_is_shared(machine):
    import stalloc

    assert stalloc.enable()
    storage = machine.torch.UntypedStorage()
    storage._cdata = 4096
    assert storage._share_cuda_() == "shared"
    assert double(_adapter_build.find(machine.torch)).stub_moved() == 4096
    storage._cdata = 0
    with pytest.raises(RuntimeError, match="no room to move it"):
        storage._share_cuda_()
