"""Runs tests of a file of PyTorch's, one after another, as pytorch_tests.py names them.

    python pytorch_worker.py FILE REPORT       REPORT: a file descriptor for the results

The names of all tests go to REPORT first, as a line of JSON. Then each line on standard input
names one test, and its result follows. What the tests print goes where this process prints.
"""

import importlib.util
import json
import os
import sys
import traceback
import unittest
from pathlib import Path


class Result(unittest.TestResult):
    """What became of one test, and what its error said."""

    def __init__(self):
        super().__init__()
        self.state, self.why = "passed", ""

    def set(self, state, why):
        if self.state in ("passed", "skipped"):
            self.state, self.why = state, why.strip()

    def failed(self, error):
        lines = "".join(traceback.format_exception_only(*error[:2])).splitlines()
        # PyTorch's own TestCase ends a message with how to run the test again.
        ends = [n for n, line in enumerate(lines) if line.startswith("To execute this test")]
        told = [line.strip() for line in lines[: ends[0] if ends else None] if line.strip()]
        self.set("failed", " ".join(told))

    def addError(self, test, err):
        self.failed(err)

    def addFailure(self, test, err):
        self.failed(err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(err)

    def addSkip(self, test, reason):
        self.set("skipped", reason)

    def addUnexpectedSuccess(self, test):
        self.set("failed", "passed, though it is expected to fail")


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def load(path):
    """The tests of a file, by class and name."""
    sys.argv = [str(path)]  # PyTorch's common_utils reads it
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    tests = flat(unittest.defaultTestLoader.loadTestsFromModule(module))
    return {".".join(test.id().split(".")[-2:]): test for test in tests}


def main():
    path, fd = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(fd, False)
    report = os.fdopen(fd, "w", buffering=1)
    orders = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # tests start programs that may read
    tests = load(path)
    print(json.dumps(list(tests)), file=report)
    for line in orders:
        result = Result()
        # In a suite, for the set-up of its class.
        unittest.TestSuite([tests[line.strip()]]).run(result)
        sys.stdout.flush()
        sys.stderr.flush()
        print(json.dumps([result.state, result.why]), file=report)


if __name__ == "__main__":
    main()
