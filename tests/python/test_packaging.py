"""The package as pip installs it."""

import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2] / "python"


def test_pip_installs_libraries_and_types(tmp_path, stub):
    source = tmp_path / "source"
    shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("lib", "build", "*.egg-info"))
    library = source / "stalloc" / "lib" / "libstalloc.so"
    library.parent.mkdir()
    shutil.copy(stub.path, library)
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(target), str(source)], check=True)
    assert (target / "stalloc" / "lib" / "libstalloc.so").exists()
    assert (target / "stalloc" / "py.typed").exists()
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import stalloc\n"
        "from stalloc import _native; _native.Native(_native.shim_path())"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    metadata = next(target.glob("stalloc-*.dist-info"))
    version = (PYTHON / "stalloc" / "_version.py").read_text().split('"')[-2]
    assert f"Version: {version}\n" in (metadata / "METADATA").read_text()
    assert "Root-Is-Purelib: false" in (metadata / "WHEEL").read_text()
