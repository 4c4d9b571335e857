"""The program that runs PyTorch's own allocator tests, with tests made up for it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "gpu" / "pytorch_tests.py"
TESTS = """
import os, signal, sys, time, unittest

OURS = "stalloc" in sys.modules

class TestCuda(unittest.TestCase):
    def test_memory_of_both(self):
        print("noise")

    def test_matmul(self):
        self.fail("no allocator's part: not to be run")

    def test_alloc_native_alone(self):
        self.assertEqual(OURS, False, "seen")

    def test_alloc_stalloc_alone(self):
        if not OURS:
            raise RuntimeError("first line\\nlast line")

    @unittest.skip("no such device")
    def test_graph(self):
        pass

    def test_pool_left_over(self):
        try:
            os.mkdir(f"{__file__}.{OURS}")
        except FileExistsError:
            return
        self.fail("what another test left behind")

    def test_oom_hangs(self):
        while OURS:
            time.sleep(1)

class TestMemPool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ready = True

    def test_crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_behind_a_crash(self):
        assert self.ready and sys.argv == [__file__] and not sys.stdin.read()

class TestMatmul(unittest.TestCase):
    def test_memory(self):
        self.fail("not to be run")
"""
TREES = """
import unittest

class CudaGraphTreeTests(unittest.TestCase):
    def test_whatever_its_name(self):
        pass
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "test" / "inductor").mkdir(parents=True)
    (folder / "test" / "test_cuda.py").write_text(TESTS)
    (folder / "test" / "inductor" / "test_cudagraph_trees.py").write_text(TREES)
    return folder


STAND_IN = Path(tempfile.mkdtemp())
(STAND_IN / "torch").mkdir()
(STAND_IN / "torch" / "__init__.py").touch()


def start(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "PYTORCH_PATH"}
    # --strict wants a PyTorch that could be imported; these tests import none.
    environment["PYTHONPATH"] = f"{environment.get('PYTHONPATH', '')}:{STAND_IN}"
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_compares_test_by_test(checkout, tmp_path):
    file = tmp_path / "results.json"
    how = ("--jobs", 2, "--timeout", 6, "--verbose")
    done = start("--checkout", checkout, *how, "--json", file)
    assert done.returncode == 1 and "9 tests, 2 lost" in done.stdout, done
    for row in ("passed", "failed", "skipped", "crashed", "timed out"):
        assert f"| {row} " in done.stdout
    assert "TestCuda.test_alloc_native_alone: native passed, stalloc failed" in done.stdout
    assert "    stalloc: AssertionError: True != False : seen" in done.stdout
    results = json.loads(file.read_text())
    states = {a: {n.split(".")[1]: r[:2] for n, r in results[a].items()} for a in results}
    assert states["native"] == {
        "test_memory_of_both": ["passed", ""],
        "test_alloc_native_alone": ["passed", ""],
        "test_alloc_stalloc_alone": ["failed", "RuntimeError: first line last line"],
        "test_graph": ["skipped", "no such device"],
        "test_pool_left_over": ["passed", ""],
        "test_oom_hangs": ["passed", ""],
        "test_crash": states["native"]["test_crash"],
        "test_behind_a_crash": ["passed", ""],
        "test_whatever_its_name": ["passed", ""],
    }
    assert [result[0] for result in (states[a]["test_crash"] for a in states)] == ["crashed"] * 2
    assert states["native"]["test_crash"][1].startswith("SIGSEGV")
    assert states["stalloc"]["test_oom_hangs"][0] == "timed out"
    assert states["stalloc"]["test_behind_a_crash"][0] == "passed"
    ran = [line.split()[-1].split(".")[1] for line in done.stdout.splitlines() if ", at " in line]
    last = max(n for n, name in enumerate(ran) if name == "test_oom_hangs")
    again = {"test_crash", "test_pool_left_over", "test_whatever_its_name"}
    assert set(ran[last + 1 :]) == again  # what fails under both is judged again last


def test_names_what_cannot_be_run(checkout, tmp_path):
    done = start("--checkout", tmp_path)
    assert done.returncode == 2 and "name a checkout of PyTorch" in done.stderr
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_cuda.py").write_text("import there_is_no_such_module")
    done = start("--checkout", tmp_path)
    assert done.returncode == 2 and "there_is_no_such_module" in done.stderr
