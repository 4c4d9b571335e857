"""Recording a program: how it runs, how it ends, and a trace that the Go reader takes."""

import gc
import gzip
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from documented import of, split
from recording import LOOP, marks_of
from stalloc import StallocError, StallocWarning, _program, record

ROOT = Path(__file__).resolve().parents[2]


def test_a_program_ends_behind_so_many_steps(recorded):
    status, lines = recorded(LOOP + "history.alloc(77)", options=["--steps", "2"])
    assert status == 0 and lines[-1] == "# end"
    assert [mark for mark in marks_of(lines) if mark != "backward"] == ["step 0", "step 1", "end"]


def test_stalloc_stays_off(recorded):
    with pytest.warns(StallocWarning, match="this run is recorded"):
        status, _ = recorded("assert not stalloc.enable() and stalloc.stats().hits == 0\n" + LOOP)
    assert status == 0


def test_a_script_that_fails_is_recorded_up_to_there(recorded, tmp_path):
    with pytest.raises(ZeroDivisionError):
        recorded(LOOP + "history.alloc(77)\n1 / 0")
    lines = gzip.decompress((tmp_path / "trace.csv.gz").read_bytes()).decode().splitlines()
    assert lines[-2] == "# step 3" and lines[-1].split(",")[2] == "77"


@pytest.mark.parametrize(
    "call, status", [("sys.exit()", 0), ("sys.exit(4)", 4), ("sys.exit('why')", 1)]
)
def test_exit_status(recorded, call, status, capsys):
    got, lines = recorded(LOOP + call)
    assert got == status and lines[-1] == ("# end" if status == 0 else "# step 3")
    assert ("why" in capsys.readouterr().err) == (status == 1)


def test_what_a_script_sees(recorded, tmp_path):
    body = "assert sys.argv[1:] == ['-x', '1'] and __name__ == '__main__'\nimport beside\n"
    (tmp_path / "beside.py").write_text("")
    assert recorded(body, "-x", "1", file="plain.csv")[0] == 0


def test_a_folder_runs_as_it_would(recorded, tmp_path):
    folder, path = tmp_path / "my program", tmp_path / "f.csv"
    folder.mkdir()
    (folder / "__main__.py").write_text(
        "import stalloc, sys, torch\nhistory = torch.history\n"
        f"assert sys.path[0] == {str(folder)!r} and sys.argv[1:] == ['-x']\n" + LOOP
    )
    assert record.main(["-o", str(path), str(folder), "-x"]) == 0
    assert path.read_text().startswith("# workload my_program torch")


def test_two_dashes_end_the_options(recorded, tmp_path):
    (tmp_path / "it.py").write_text("import sys\nassert sys.argv[1:] == ['--', 'x']\n")
    command = ["-o", str(tmp_path / "it.csv"), "--", str(tmp_path / "it.py"), "--", "x"]
    assert record.main(command) == 0


@pytest.mark.parametrize("module", [False, True])
def test_a_path_without_the_programs_folder_is_kept(recorded, tmp_path, monkeypatch, module):
    """python -I, -P and PYTHONSAFEPATH put no folder first: none is there to be replaced."""
    flags = types.SimpleNamespace(isolated=0, safe_path=True)
    monkeypatch.setattr(_program, "sys", types.SimpleNamespace(**{**vars(sys), "flags": flags}))
    library = tmp_path / "library"
    library.mkdir()
    (library / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(library)
    if module:
        assert record.main(["-o", str(tmp_path / "m.csv"), "-m", "mine"]) == 0
    else:
        assert recorded("import mine\n" + LOOP)[0] == 0
    assert sys.path[0] == str(library)


@pytest.mark.parametrize("rank", [{}, {"RANK": "3", "WORLD_SIZE": "4"}, {"SLURM_PROCID": "3"}])
def test_the_rank_in_the_files_name(recorded, tmp_path, monkeypatch, rank):
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    recorded("import os\n" + LOOP, file="trace.%r.csv")
    assert [p.name for p in tmp_path.glob("*.csv")] == [f"trace.{'3' if rank else '0'}.csv"]


def test_the_devices_rank(history, monkeypatch):
    torch = sys.modules["torch"]
    torch.cuda.device_count = lambda: 4
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert record._device(torch, None) == 2 and record._device(torch, 1) == 1
    monkeypatch.setenv("LOCAL_RANK", "9")
    assert record._device(torch, None) == torch.cuda.current_device()


def test_a_module(recorded, tmp_path, monkeypatch, capsys):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(
        "import stalloc, sys, torch\nfrom . import beside\nhistory = torch.history\n"
        "assert sys.argv[1:] == ['-x', '-m', '1'] and __name__ == '__main__'\n" + LOOP
    )
    (package / "beside.py").write_text("")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.csv"
    assert record.main(["-o", str(path), "-m", "pack.train", "-x", "-m", "1"]) == 0
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# workload pack.train torch") and len(marks_of(lines)) == 7


def test_a_terminated_script_is_recorded_up_to_there(recorded):
    body = "import os, signal\n" + LOOP + "os.kill(os.getpid(), signal.SIGTERM)\nhistory.alloc(9)"
    status, lines = recorded(body)
    assert status == 128 + signal.SIGTERM and lines[-1] == "# step 3"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_end_the_writing(recorded, tmp_path, monkeypatch, number):
    """Of Control-C both the terminal and torchrun tell each rank."""
    write = record.write

    def told_again(*args):
        os.kill(os.getpid(), number)
        write(*args)

    monkeypatch.setattr(record, "write", told_again)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        recorded(LOOP + "raise KeyboardInterrupt")
    lines = gzip.decompress((tmp_path / "trace.csv.gz").read_bytes()).decode().splitlines()
    assert lines[-1] == "# step 3" and signal.getsignal(signal.SIGINT) is handler


def test_names_that_are_no_text(recorded, tmp_path):
    status, lines = recorded(
        LOOP + "stalloc.mark('\\udcff')", options=["--name", os.fsdecode(b"a\xff")]
    )
    assert status == 0 and lines[0].startswith("# workload a? torch") and lines[-1] == "# ?"


@pytest.mark.parametrize("device", ["7", "-1"])
def test_no_such_device(recorded, capsys, device):
    assert recorded(LOOP, options=["--device", device]) == (1, None)
    assert f"--device {device}: PyTorch sees 1 here" in capsys.readouterr().err


def test_other_allocators_cannot_be_recorded(history, recorded, capsys):
    sys.modules["torch"].cuda.memory.get_allocator_backend = lambda: "cudaMallocAsync"
    assert recorded(LOOP) == (1, None)
    assert "cudaMallocAsync, which keeps no history" in capsys.readouterr().err


def test_no_gpu(recorded, capsys):
    sys.modules["torch"].cuda.is_available = lambda: False
    assert recorded(LOOP) == (1, None)
    assert "finds no GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        (["-o", "x.csv", "absent.py"], "no such program; name a script"),
        (["-o", __file__, __file__], "would replace the script"),
        (["-o", "x.csv", "-m", "absent.module"], "no such module"),
        (["-o", "x.csv", "-m"], "name a script"),
        (["-o", "x.csv"], "name a script"),
        (["-o", "/absent/x", "it.py"], "no folder"),
        (["-o", "x.csv", "--memory", "much", "it.py"], "like 512MiB"),
        (["-o", "x.csv", "--memory", "1KiB", "it.py"], "at least 1MiB"),
        (["-o", "x.csv", "--poll", "often", "it.py"], "want microseconds"),
        (["-o", "x.csv", "--steps", "0", "it.py"], "at least 1"),
        (["-o", "x.csv", "--steps", "few", "it.py"], "at least 1"),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "it.py").write_text("")
    with pytest.raises(SystemExit):
        record.main(options)
    assert message in capsys.readouterr().err


def test_several_ranks_need_a_file_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "it.py").write_text("")
    with pytest.raises(SystemExit):
        record.main(["-o", "x.csv", "it.py"])
    assert "put %r into its name" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["own.csv.gz", "own.csv"])
def test_the_go_reader_takes_it(recorded, tmp_path, file):
    recorded(LOOP, "--marked", file=file)

    def stalloc(*arguments):
        command = [str(ROOT / "bin" / "stalloc"), *arguments, str(tmp_path / file)]
        return subprocess.run(command, check=True, capture_output=True).stdout

    made = json.loads(stalloc("plan", "--json"))
    assert made["trace"] == "own" and made["peak_load_bytes"] == 130 << 20
    replayed = [json.loads(line) for line in stalloc("replay", "--json").splitlines()]
    assert len(replayed) == 4
    assert {r["requests"] for r in replayed} == {7}
    assert {r["peak_load_bytes"] for r in replayed} == {(130 << 20) + 1024}
    stalloc("report", "-o", str(tmp_path / "own.html"))
    assert "130.00 MiB" in (tmp_path / "own.html").read_text()


def test_one_recording_at_a_time(history):
    args = types.SimpleNamespace(
        device=None, memory=1 << 30, output=Path("x.csv"), poll=0, stacks=False, steps=None
    )
    record.Recorder(args)
    with pytest.raises(StallocError, match="one at a time"):
        record.Recorder(args)


def recordings(words):
    return "record" in words or "stalloc.record" in words


@pytest.mark.parametrize("words", of("stalloc", "torchrun", where=recordings))
def test_as_documented(recorded, tmp_path, monkeypatch, words):
    """What README and docs tell people to type; a launcher's ranks are played by one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import stalloc, sys, torch\nhistory = torch.history\n" + LOOP
    )
    words = list(split(words)[1])
    if words[0] == "torchrun":
        for name, value in {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "0"}.items():
            monkeypatch.setenv(name, value)
    arguments = words[
        next(i for i, w in enumerate(words) if w in ("record", "stalloc.record")) + 1 :
    ]
    assert record.main(arguments) == 0
    path = tmp_path / arguments[arguments.index("-o") + 1].replace("%r", "3")
    assert gzip.decompress(path.read_bytes()).startswith(b"# workload train ")


def test_a_forked_child_leaves_the_recording_alone(recorded, tmp_path, capfd):
    """It ends as Python ends, which closes what it has of the recording, too."""
    body = LOOP + "import os\nchild = os.fork()\nif not child:\n    sys.exit(3)\n"
    body += "assert os.waitpid(child, 0)[1] == 3 << 8\n"
    process = os.getpid()
    status, lines = recorded(body)
    if os.getpid() != process:
        gc.collect()
        os._exit(status)
    assert status == 0 and lines[-1] == "# end" and len(lines) == 27
    assert capfd.readouterr().err.count("events in") == 1
