"""Unchanged programs under stalloc: `stalloc run`, and STALLOC=1 in the environment."""

import json
import re

import pytest
from programs import ROOT
from training import CONF, PROGRAM, Training

RUN = ("-m", "stalloc.run")
# Python reads a .pth file where packages are installed. This does it with the source tree's.
HOOK = f"import site; site.addsitedir({str(ROOT / 'python')!r})\n"
SUMMARY = re.compile(
    r"stalloc: cuda:0: reserved at most \d+\.00 MiB for 9\.00 MiB allocated \(\d+\.\d\d% waste\); "
    # It is simulated beside the program, which ends at once.
    r"(native would be at full speed in about \d+\.00 MiB, or less( in the first \d steps)?; )?"
    r"18 requests in 5 steps, .*; driver \d+\.\d\d s\n"
)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    training = Training(tmp_path_factory.mktemp("training"))
    (training.folder / "work" / "empty").mkdir()
    return training


def test_a_script_runs_as_it_would(training):
    out, err = training.start(*RUN, "train.py", "--lr", "1e-3", "--limit", "none")
    plain, _ = training.start("train.py", "--lr", "1e-3", "--limit", "none")
    assert out == plain.replace("native", "pluggable")
    assert SUMMARY.fullmatch(err), err


def test_a_module_runs_as_it_would(training):
    out, err = training.start(*RUN, "-m", "train", "--lr", "1e-3")
    plain, _ = training.start("-m", "train", "--lr", "1e-3")
    assert out == plain.replace("native", "pluggable")
    assert SUMMARY.fullmatch(err), err


@pytest.mark.parametrize("program", [("train.py",), ("-m", "train")])
def test_two_dashes_behind_the_program_are_its_own(training, program):
    out, _ = training.start(*RUN, *program, "--", "--lr")
    plain, _ = training.start(*program, "--", "--lr")
    assert out == plain.replace("native", "pluggable")


def test_a_folder_runs_as_it_would(training):
    folder = training.folder / "work" / "package"
    folder.mkdir()
    (folder / "__main__.py").write_text("import sys, torch; print(sys.argv[1:], sys.path[0])")
    assert training.start(*RUN, "package", "x") == training.start("package", "x")


def test_what_runs_after_the_program_finds_its_module(training):
    """Pickle looks there for the classes of what an exit handler saves."""
    folder = training.folder / "work" / "saves_at_exit"
    folder.mkdir()
    (folder / "__main__.py").write_text(
        "import atexit, pickle, sys\nclass State: pass\n"
        "atexit.register(lambda: print(len(pickle.dumps(State())), sys.argv))\n"
    )
    for program in (["saves_at_exit"], ["-m", "saves_at_exit"], ["saves_at_exit/__main__.py"]):
        assert training.start(*RUN, *program, "x") == training.start(*program, "x")


def test_exit_status_and_errors_are_the_program_s(training):
    ends = training.folder / "work" / "ends.py"
    ends.write_text("import sys, torch\nsys.exit(7)\n")
    assert training.start(*RUN, ends, status=7) == ("", "")
    ends.write_text("import torch\nraise KeyError('mine')\n")
    _, err = training.start(*RUN, ends, status=1)
    assert err.endswith("KeyError: 'mine'\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.py"], "absent.py: no such program"),
        (["python", "train.py"], "python: leave it out, this is Python already"),
        (["/usr/bin/python3.99", "train.py"], "name the script itself"),
        (["--summary", "absent/x.json", "train.py"], "--summary absent/x.json: there is no folder"),
        (["--summary", ".", "train.py"], "--summary .: is a folder"),
        (["-m", "absent.module"], "absent.module: no such module"),
        ([], "name a script to run, or a module after -m"),
        (["empty"], "empty: there is no __main__.py in it; name a script"),
        (["--limit", "0.9", "train.py"], "limit:0.9: expected an amount of memory"),
        (["--conf", "colour:blue", "train.py"], 'unknown key "colour"'),
        (["--conf", "colour", "train.py"], "expected key:value"),
        (["--plan", "perhaps", "train.py"], "invalid choice: 'perhaps'"),
        (["--offload-activations", "some", "train.py"], "some: give 60GiB, 90% or auto"),
    ],
)
def test_what_cannot_be_meant_is_refused(training, arguments, words):
    _, err = training.start(*RUN, *arguments, status=2)
    assert words in err


def test_activations_are_offloaded_from_the_import_of_torch_on(training):
    script = training.folder / "work" / "saves.py"
    script.write_text("import torch\nprint(len(torch.saving))\n")
    for options, hooks in (((), 0), (("auto",), 1), (("90%",), 1)):
        options = ("--offload-activations", *options) if options else ()
        assert training.start(*RUN, *options, script)[0] == f"{hooks}\n"
    # A wrong amount in the environment is said once, and the program goes on.
    _, err = training.start(*RUN, script, STALLOC_OFFLOAD_ACTIVATIONS="some")
    assert "a limit of 'some'" in err


def test_settings_are_checked_where_there_is_no_gpu(training):
    for options in (("--limit", "abc"), ("--conf", "limt:1GiB,plan:maybe")):
        _, err = training.start(*RUN, *options, "train.py", status=2, STALLOC_CONF="driver:/absent")
        assert err.startswith("stalloc run: ") and err.count("\n") == 1
    assert "limt" in err and "plan:maybe" in err
    text = HOOK + "import stalloc; stalloc.enable(limt='1GiB')"
    _, err = training.start("-c", text, status=1, STALLOC_CONF="driver:/absent")
    assert 'SettingError: stalloc: cannot start: STALLOC_CONF: unknown key "limt"' in err


def test_strict_says_in_a_line_what_is_missing(training):
    absent = ("--conf", "driver:/absent.so", "--strict", "train.py")
    out, err = training.start(*RUN, *absent, status=1)
    assert out == "" and err.startswith("stalloc run: there is no NVIDIA driver (/absent.so: ")
    assert err.count("\n") == 1


def test_strict_without_pytorch_is_an_error(training):
    torch, away = training.folder / "site" / "torch", training.folder / "elsewhere"
    torch.rename(away)
    try:
        out, err = training.start(*RUN, "--strict", "train.py", status=1)
    finally:
        away.rename(torch)
    assert out == "" and err.startswith("stalloc run: PyTorch is not installed for this Python")
    assert err.count("\n") == 1


def test_what_was_promised_and_did_not_come_is_said(training, tmp_path):
    (training.folder / "work" / "idle.py").write_text("print('idle')")
    file = tmp_path / "counters.json"
    out, err = training.start(*RUN, "--summary", file, "idle.py")
    assert out == "idle\n" and not file.exists()
    assert err == f"stalloc run: this process used no CUDA memory; {file} is not written\n"
    _, err = training.start(*RUN, "--strict", "idle.py")
    assert err == "stalloc run: this process used no CUDA memory\n"
    assert training.start(*RUN, "idle.py")[1] == ""


def test_counters_of_each_rank_as_json(training, tmp_path):
    world = {"RANK": "3", "WORLD_SIZE": "8"}
    _, err = training.start(*RUN, "--summary", tmp_path / "%r.json", "train.py", **world)
    assert err.startswith("stalloc[3]: cuda:0: reserved")
    counters = json.loads((tmp_path / "3.json").read_text())
    assert counters["rank"] == 3 and counters["devices"]["0"]["requests"] == 18
    training.start(*RUN, "--summary", tmp_path / "all.json", "train.py", **world)
    assert (tmp_path / "all.json.3").exists()
    assert training.start(*RUN, "--no-summary", "train.py", **world)[1] == ""
    plain, _ = training.start(*RUN, "train.py", **world)
    out, _ = training.start(*RUN, "--summary", "-", "train.py", **world)
    assert out.startswith(plain) and json.loads(out.removeprefix(plain))["rank"] == 3


def test_rank_in_lines_of_the_libraries(training):
    quiet = (*RUN, "--no-summary")
    _, err = training.start(*quiet, "--log", "info", "train.py", RANK="3")
    assert err and all("stalloc[3]" in line for line in err.splitlines()), err
    _, err = training.start(*quiet, "--conf", "engine:/absent.so", "train.py", RANK="3")
    assert err.startswith("stalloc[3]: the engine does not serve device 0 (the engine cannot")


def test_environment_enables_when_torch_is_imported(training):
    find = "import importlib.util; importlib.util.find_spec('torch')\n"  # as transformers does
    out, err = training.start("-c", HOOK + find + PROGRAM, STALLOC="1")
    assert "pluggable" in out and SUMMARY.fullmatch(err), err
    for value in ("0", ""):
        out, err = training.start("-c", HOOK + PROGRAM, STALLOC=value)
        assert "native" in out and err == ""
    _, err = training.start("-c", HOOK, STALLOC="maybe")
    assert err == "stalloc stays off: STALLOC=maybe in the environment; set it to 1, strict or 0\n"


def test_a_thread_enables_while_another_imports_torch(training):
    both = """
import os, sys, threading, time
import stalloc
from stalloc import _hook
asked, imported = threading.Event(), threading.Event()
class Driver:
    def __fspath__(self):  # enable() asks for it early
        asked.set()
        imported.wait(2)
        time.sleep(0.1)
        return os.environ["DRIVER"]
then = _hook._finder.then
_hook._finder.then = lambda: (imported.set(), then())
thread = threading.Thread(target=stalloc.enable, kwargs={"driver": Driver()}, daemon=True)
thread.start()
asked.wait(60)
import torch
thread.join(60)
print(thread.is_alive(), stalloc.is_enabled())
"""
    driver = CONF.partition(",")[0].removeprefix("driver:")
    out, _ = training.start("-c", HOOK + both, STALLOC="1", DRIVER=driver)
    assert out == "False True\n"


def test_torch_that_is_imported_already(training):
    """By another package's .pth file."""
    out, err = training.start("-c", "import torch\n" + HOOK + PROGRAM, STALLOC="strict")
    assert "pluggable" in out and SUMMARY.fullmatch(err), err


def test_program_s_own_call_comes_before_the_environment(training):
    text = HOOK + "import stalloc; assert stalloc.enable(log='error')\n" + PROGRAM
    out, err = training.start("-c", text, STALLOC="1", PYTHONWARNINGS="error")
    assert "pluggable" in out and SUMMARY.fullmatch(err), err


def test_program_without_torch_pays_nothing(training):
    text = HOOK + "import sys; print('torch' in sys.modules, 'stalloc._session' in sys.modules)"
    assert training.start("-c", text, STALLOC="1") == ("False True\n", "")


def test_summary_of_a_run_that_was_closed(training):
    closing = (
        "import stalloc; stalloc.close()\nprint(stalloc.is_enabled(), torch.malloc(512) != 0)\n"
    )
    out, err = training.start("-c", HOOK + PROGRAM + closing, STALLOC="1")
    assert out.endswith("False True\n")
    told, summary = err.splitlines(keepends=True)
    assert "the engine does not serve device 0 (it was closed)" in told
    assert "19 requests in 5 steps" in summary and "1 plain driver allocations" in summary


def test_failure_leaves_the_program_as_it_is(training):
    library = training.folder / "site" / "torch" / "lib" / "libc10.so"
    library.rename(library.with_suffix(".away"))
    try:
        out, err = training.start("-c", HOOK + PROGRAM, STALLOC="1")
        assert "native" in out and "StallocWarning: stalloc stays off" in err
        _, err = training.start("-c", HOOK + PROGRAM, STALLOC="strict", status=1)
        assert "StallocError: stalloc: PyTorch 2.11.0 has no" in err
    finally:
        library.with_suffix(".away").rename(library)


def test_fallback_is_a_warning_and_an_error_with_strict(training):
    broken = ("--conf", "engine:/absent.so", "train.py")
    _, err = training.start(*RUN, *broken)
    assert err.count("StallocWarning: stalloc: plain driver allocations served") == 1
    assert "18 plain driver allocations" in err
    _, err = training.start(*RUN, "--strict", *broken, status=1)
    assert "StallocError: stalloc: plain driver allocations served" in err
