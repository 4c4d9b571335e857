"""The wheel of `make wheel`, installed into an empty environment of another Python version.

WHEEL_PYTHON names the interpreter; else the first on the path that serves is taken.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "shim")]

from training import Training  # noqa: E402

PROBE = "import sys, venv, ensurepip; print('.'.join(map(str, sys.version_info[:2])))"


def candidates():
    """Interpreters: the one that was named, those on the path, those of pyenv and of uv."""
    if "WHEEL_PYTHON" in os.environ:
        return [os.environ["WHEEL_PYTHON"]]
    folders = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    folders.append(Path.home() / ".local" / "share" / "uv" / "python")
    managed = [p for folder in folders for p in sorted(folder.glob("*/bin/python3"))]
    return [f"python3.{minor}" for minor in range(9, 20)] + managed


def another_python():
    """An interpreter of another version than this one, with which an environment can be made."""
    for name in candidates():
        path = shutil.which(name)
        done = path and subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
        if not done or done.returncode:
            continue
        version = tuple(map(int, done.stdout.split(".")))
        if version >= (3, 9) and version != sys.version_info[:2]:
            return path
    pytest.fail("no other Python of version 3.9 or later here: name one in WHEEL_PYTHON")


@pytest.fixture(scope="session")
def wheel():
    (path,) = (ROOT / "dist").glob("stalloc-*.whl")
    return path


@pytest.fixture(scope="session")
def bin(wheel, tmp_path_factory):
    """The folder of the environment's programs. Nothing is in it but the wheel."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([another_python(), "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-index", wheel], check=True)
    subprocess.run([*pip, "uninstall", "--yes", "setuptools"], check=True)
    return folder / "bin"


@pytest.fixture(scope="session")
def training(tmp_path_factory):
    return Training(tmp_path_factory.mktemp("training"))
