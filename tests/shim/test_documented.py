"""The command lines in README and docs, run as they stand there, in a folder of a user's.

Launchers are left out and what they would start is run as one of eight ranks. Recording is in
tests/python/test_record.py, which has the memory history for it.
"""

import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from programs import DRIVER, ENGINE, ROOT
from training import CONF, DOUBLES, PROGRAM, Training

sys.path.append(str(DOUBLES))

from documented import of, split  # noqa: E402

RECORDING = ROOT / "tests" / "traces" / "multiscale_resnet.csv.gz"
RANK = {"RANK": "3", "WORLD_SIZE": "8"}
LAUNCHERS = {"torchrun", "deepspeed"}


def grown(times):
    """The recording's first steps, of a batch so many times as large."""
    text = gzip.decompress(RECORDING.read_bytes()).decode().split("# step 3\n")[0]
    return re.sub(r"(?m)^(a,\d+),(\d+)", lambda m: f"{m[1]},{times * int(m[2])}", text)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """What the commands name is there: programs, a recording, a profiler's trace."""
    training = Training(tmp_path_factory.mktemp("documented"))
    work = training.folder / "work"
    (work / "package").mkdir()
    (work / "torchtitan").mkdir()
    for name in ("pretrain_gpt.py", "package/module.py", "torchtitan/train.py"):
        (work / name).write_text(PROGRAM)
    (work / "package" / "__init__.py").touch()
    (work / "torchtitan" / "__init__.py").touch()
    (work / "tests").symlink_to(ROOT / "tests")
    (work / "examples").symlink_to(ROOT / "examples")
    (work / "build").mkdir()
    for name, size in (("run", 1), ("b4", 4), ("b8", 8), ("b12", 12)):
        (work / f"{name}.csv.gz").write_bytes(gzip.compress(grown(size).encode()))
    (work / "problem.csv").write_text("id,lower,upper,size\n0,0,3,4096\n1,1,4,8192\n2,3,6,4096\n")
    (work / "profiler.json").write_text('{"traceEvents": [], "baseTimeNanoseconds": 0}')
    # Where packages are installed, Python reads stalloc.pth when it starts.
    hook = f"import site; site.addsitedir({str(ROOT / 'python')!r})\n"
    (training.folder / "site" / "sitecustomize.py").write_text(hook)
    return training


def no_server(words):
    """Nor what records: TestFitSizes in cmd/stalloc has a stand-in for that."""
    return words[1] not in ("record", "doctor") and not {"--metrics", "--sizes"} & set(words)


def to_run(words):
    """The environment, and what Python is given, of a command line."""
    settings, words = split(list(words))
    if words[0] in LAUNCHERS:
        settings |= RANK
        first = next(i for i, word in enumerate(words) if word == "-m" or word.endswith(".py"))
        words = ["python", *words[first:]]
    if "STALLOC_CONF" in settings:
        settings["STALLOC_CONF"] += f",{CONF}"
    words = ["-m", *words] if words[0] == "stalloc" else words[1:]
    return settings, [str(RECORDING) if word.startswith("tests/") else word for word in words]


@pytest.mark.parametrize(
    "words",
    of("stalloc", where=no_server)
    + of("python", where=lambda words: "/" not in words[1])
    + of(*LAUNCHERS, where=lambda words: "stalloc.record" not in words),
)
def test_command(training, words):
    settings, arguments = to_run(words)
    if "merge" in arguments:
        (training.folder / "work" / "run.json").unlink(missing_ok=True)
        training.start("-m", "stalloc", "run", "train.py", STALLOC_CONF=f"trace:run.json,{CONF}")
    out, err = training.start(*arguments, **settings)
    if any(word in arguments for word in ("run", "stalloc.run")) or "STALLOC" in settings:
        assert "pluggable" in out and "reserved at most" in err
    elif "top" not in arguments:
        assert out or (training.folder / "work" / arguments[-1]).stat().st_size > 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("words", of("stalloc", where=lambda words: "--metrics" in words))
def test_server(words):
    """It answers until it is interrupted."""
    port = free_port()
    until = words.index("--metrics") + 1  # a port may follow
    command = [ROOT / "bin" / "stalloc", *words[1:until], str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        assert str(port) in process.stderr.readline().decode()
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)
        assert answer.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 130), errors


@pytest.mark.parametrize("words", of("stalloc", where=lambda words: words[1] == "doctor"))
def test_doctor(training, words):
    conf = f"driver:{DRIVER},engine:{ENGINE}"
    out, _ = training.start("-m", *words, STALLOC_CONF=conf, status=1)  # the stand-in is no PyTorch
    lines = [line.split()[:2] for line in out.splitlines() if not line.startswith(" ")]
    assert ["ok", "trial"] in lines
    assert [subject for status, subject in lines if status == "fix"] == ["torch"]


# A value for each setting. Two runs have them all: GMLake's algorithm knows no plans.
SETTINGS = {
    "limit": "512MiB", "log": "info", "plan": "always", "stitch": "off",
    "wait": "off", "window": "1GiB", "page": "off", "metrics": None, "trace": "trace.%p.json",
    "oom_report": "oom.%r.txt", "native": "off", "driver": str(DRIVER),
    "cache": "plans", "engine": str(ENGINE), "route": "pluggable", "share": "fd",
    "handle_part": "96", "handle_most": "4MiB", "grow_part": "4", "small_limit": "16KiB",
}  # fmt: skip
LAKE = {"pool": "gmlake", "fraglimit": "4MiB"}


def test_every_setting(training):
    text = (ROOT / "docs" / "settings.md").read_text()
    told = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)) | {"route"}
    assert told == {*SETTINGS, *LAKE}
    for settings in (SETTINGS | {"metrics": free_port()}, LAKE):
        conf = ",".join(f"{key}:{value}" for key, value in settings.items())
        out, err = training.start("-m", "stalloc", "run", "--conf", conf, "train.py")
        assert "pluggable" in out and "reserved at most" in err, (conf, err)
    (trace,) = (training.folder / "work").glob("trace.*.json")
    assert json.loads(trace.read_text())


def test_every_option_of_run(training):
    text = (ROOT / "docs" / "integrations.md").read_text()
    table = "".join(re.findall(r"^\| `--.*$", text, re.MULTILINE))
    given = [
        "--conf",
        "log:warn",
        "--limit",
        "512MiB",
        "--plan",
        "on",
    ]
    given += ["--log", "error", "--strict", "--summary", "counters.json"]
    out, _ = training.start("-m", "stalloc", "run", *given, "train.py")
    assert "pluggable" in out
    assert json.loads((training.folder / "work" / "counters.json").read_text())
    _, err = training.start("-m", "stalloc", "run", "--no-summary", "train.py")
    assert "reserved" not in err
    run = {word for word in given if word[0] == "-"} | {"--no-summary"}
    assert set(re.findall(r"`(--[a-z-]+)", table)) == run
