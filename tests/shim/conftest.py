"""Fixtures that start programs: see programs.py."""

import pytest
from programs import DRIVER, ENGINE, Program


@pytest.fixture
def start(tmp_path):
    """start(text, conf=..., **environment): starts a program, and kills it if the test fails."""
    programs = []

    def begin(text, conf=f"driver:{DRIVER},engine:{ENGINE}", **environment):
        # No program finds plans of other tests.
        programs.append(Program(text, conf, environment, tmp_path / "cache"))
        return programs[-1]

    yield begin
    for program in programs:
        if program.process.poll() is None:
            program.process.kill()
            program.process.communicate()


@pytest.fixture
def run(start):
    """run(text, ...): the program's (stdout, stderr) at its end."""
    return lambda text, **options: start(text, **options).end()
