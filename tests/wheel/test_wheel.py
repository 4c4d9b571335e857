"""What a user has after `pip install`: no torch, no GPU, no compiler, another Python."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import ROOT

VERSION = (ROOT / "VERSION").read_text().strip()


@pytest.fixture(scope="session")
def ask(bin, tmp_path_factory):
    """ask(program, arguments...): what a program of the environment prints."""
    empty = tmp_path_factory.mktemp("empty")

    def run(name, *arguments):
        command = [bin / name, *arguments]
        done = subprocess.run(command, cwd=empty, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and done.stderr == "", done
        return done.stdout

    return run


def test_one_version(ask, wheel):
    assert wheel.name == f"stalloc-{VERSION}-py3-none-manylinux_2_28_x86_64.whl"
    assert ask("stalloc", "--version") == f"stalloc {VERSION}\n"
    text = "import stalloc; from stalloc import _library as n; print(stalloc.__version__, "
    text += "n.Library(n.shim_path()).version())"
    assert ask("python", "-c", text) == f"{VERSION} {VERSION}\n"


def test_licenses(wheel):
    with zipfile.ZipFile(wheel) as files:
        folder = f"stalloc-{VERSION}.dist-info/licenses"
        assert b"Apache License" in files.read(f"{folder}/LICENSE")
        notices = files.read(f"{folder}/NOTICES").decode()
    for name in ("protoactor-go", "spf13/cobra", "NVIDIA/go-nvml", "Zig", "uPlot", "\nGo go1."):
        assert name in notices


def test_adapters(wheel):
    """Those that `make wheel ADAPTERS=...` was told to make, at least: auditwheel has looked at
    what they need."""
    with zipfile.ZipFile(wheel) as files:
        found = [n for n in files.namelist() if n.startswith("stalloc/lib/adapters/t")]
    names = [re.fullmatch(r".*/torch(2\.\d+)-abi[01]\.so", name) for name in found]
    told = os.environ["ADAPTERS"].split()  # versions, "newest" and "all"
    assert all(names) and len(found) >= len(told) and bool(found) == bool(told), found
    assert {word for word in told if word[0] == "2"} <= {name[1] for name in names}, found


def test_without_torch(ask):
    assert "llama" in ask("stalloc", "replay", ROOT / "tests" / "traces" / "llama_lora.csv.gz",
                          "--allocator", "native")  # fmt: skip
    assert "\n  run " in ask("stalloc") and "--strict" in ask("stalloc", "run", "--help")
    assert "--output" in ask("stalloc", "record", "--help")
    text = "import stalloc; stalloc.step(); print(stalloc.stats(), stalloc.explain())"
    assert "stalloc is not enabled" in ask("python", "-c", text)


def test_program_without_torch(ask, tmp_path):
    program = tmp_path / "hello.py"
    program.write_text("import sys; print(sys.argv[1:])")
    assert ask("stalloc", "run", program, "--there") == "['--there']\n"


def served(err):
    return [line for line in err.splitlines() if "18 requests in 5 steps" in line]


@pytest.mark.parametrize("bind_now", ["", "1"])
def test_training(bin, training, bind_now):
    run = {"python": bin / "stalloc", "stalloc": None, "LD_BIND_NOW": bind_now}
    out, err = training.start("run", "train.py", "--lr", "1", **run)
    assert "['train.py', '--lr', '1']" in out and "pluggable" in out
    assert len(served(err)) == 1 and len(err.splitlines()) == 1, err


def test_environment_alone(bin, training):
    plain = {"python": bin / "python", "stalloc": None}
    out, err = training.start("train.py", STALLOC="1", RANK="2", **plain)
    assert "pluggable" in out and err.startswith("stalloc[2]: cuda:0") and len(served(err)) == 1
    assert "native" in training.start("train.py", **plain)[0]


def test_processes_that_a_launcher_starts(bin, training):
    launcher = training.folder / "work" / "launcher.py"
    launcher.write_text(
        "import os, subprocess, sys, torch\n"
        "for rank in '01':\n"
        "    subprocess.run([sys.executable, 'train.py'], env={**os.environ, 'RANK': rank})\n"
    )
    run = {"python": bin / "stalloc", "stalloc": None}
    out, err = training.start("run", "--summary", "counters.%r.json", launcher, **run)
    assert out.count("pluggable") == 2 and len(served(err)) == 2
    assert {p.name for p in launcher.parent.glob("counters.*")} == {
        "counters.0.json",
        "counters.1.json",
    }


def test_sdist(tmp_path):
    """`pip install .` from the root of an unpacked sdist builds all that is installed."""
    code = f"import backend; backend.build_sdist({str(tmp_path)!r})"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "packaging")}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, check=True)
    with tarfile.open(tmp_path / f"stalloc-{VERSION}.tar.gz") as archive:
        archive.extractall(tmp_path)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    target = tmp_path / "target"
    command = [*pip, "--no-build-isolation", "--target", target, tmp_path / f"stalloc-{VERSION}"]
    subprocess.run(command, check=True, timeout=600)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(target)}
    text = "from stalloc import _library as n; print(n.Library(n.shim_path()).version())"
    for command in ([target / "bin" / "stalloc", "version"], [sys.executable, "-c", text]):
        out = subprocess.check_output(command, env=env, cwd=tmp_path, text=True)
        assert out.split()[-1] == VERSION
    assert (target / "stalloc" / "lib" / "libstalloc_engine.so").exists()
