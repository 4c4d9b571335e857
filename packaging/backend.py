"""The build backend for pip, at the root of the source tree or in an sdist of it.

`make` builds the libraries and the program, which needs Go, gcc and make; setuptools packages
python/. The sdist has what that needs: no tests and no docs.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from setuptools import build_meta

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / "python"
TOOLS = {"make": "GNU make", "go": "Go 1.26 or later (go.dev/dl)", "gcc": "gcc"}
LEFT_OUT = ("tests/", "docs/", "examples/")


@contextlib.contextmanager
def package():
    """Setuptools works in the folder that it is started in."""
    before = os.getcwd()
    os.chdir(PYTHON)
    try:
        yield
    finally:
        os.chdir(before)


def make():
    missing = [name for tool, name in TOOLS.items() if not shutil.which(tool)]
    if missing:
        sys.exit(f"stalloc is built from source and needs {', '.join(missing)}: install it first")
    # The tree may belong to another user, or may not be a git checkout.
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
    done = subprocess.run(["make", "cli", "libs"], cwd=ROOT, env={**os.environ, "GOFLAGS": flags})
    if done.returncode:
        sys.exit("stalloc: `make cli libs` failed; its output above says why")


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with package():
        return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    make()
    with package():
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def sources():
    """The files of the sdist, from the root: git's in a checkout, all there are in an sdist."""
    if (ROOT / ".git").exists():
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()
    else:
        made = {"bin", "build", "dist", "lib", ".venv", "__pycache__"}
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        names = [str(name) for name in found if not made.intersection(name.parts)]
    kept = (name for name in names if not name.startswith(LEFT_OUT) and (ROOT / name).is_file())
    return sorted(set(kept) - {"PKG-INFO"})


def build_sdist(sdist_directory, config_settings=None):
    with tempfile.TemporaryDirectory() as folder:
        name = prepare_metadata_for_build_wheel(folder)
        metadata = Path(folder, name, "METADATA").read_bytes()
    base = name.removesuffix(".dist-info")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    with tarfile.open(Path(sdist_directory, f"{base}.tar.gz"), "w:gz", dereference=True) as archive:

        def add(name, content, mode):
            info = tarfile.TarInfo(f"{base}/{name}")
            info.size, info.mode, info.mtime = len(content), mode, epoch
            archive.addfile(info, io.BytesIO(content))

        add("PKG-INFO", metadata, 0o644)
        for name in sources():
            executable = os.access(ROOT / name, os.X_OK)
            add(name, (ROOT / name).read_bytes(), 0o755 if executable else 0o644)
    return f"{base}.tar.gz"
