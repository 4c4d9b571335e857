"""The package as pip installs it from the source tree."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from stalloc import _rank

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
VERSION = (ROOT / "VERSION").read_text().strip()


@pytest.fixture
def source(tmp_path, stub):
    """A source tree in which `make` has built doubles of everything."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("lib", "bin", "build", "*.egg-info", "__pycache__")
    shutil.copytree(PYTHON, source, ignore=ignored)
    for name in ("lib/libstalloc.so", "lib/libstalloc_engine.so", "bin/stalloc"):
        (source / "stalloc" / name).parent.mkdir(exist_ok=True)
        shutil.copy(stub.path, source / "stalloc" / name)
    return source


def pip_install(source, target):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--target", str(target), str(source)]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_the_bill_of_materials_is_in_the_wheel(source, tmp_path):
    (source / "stalloc.cdx.json").write_text("{}")
    target = tmp_path / "target"
    done = pip_install(source, target)
    assert done.returncode == 0, done.stdout
    (found,) = target.glob("stalloc-*.dist-info/sboms/*")
    assert found.name == "stalloc.cdx.json" and found.read_text() == "{}"


def test_the_bill_of_materials():
    """It lists what go.mod requires, and what is linked with that, each once."""
    command = [sys.executable, "packaging/sbom.py", VERSION, "./cshim/engine", "./cmd/stalloc"]
    done = subprocess.run(command, cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE)
    bill = json.loads(done.stdout)
    assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"] == "1.6"
    parts = {part["name"]: part["version"] for part in bill["components"]}
    assert len(parts) == len(bill["components"]) == len(bill["dependencies"][0]["dependsOn"])
    required = re.findall(r"^\t(\S+) (v\S+)$", (ROOT / "go.mod").read_text(), re.MULTILINE)
    tests_alone = {"github.com/cockroachdb/datadriven"}
    assert required
    assert {name for name, version in required if parts.get(name) != version} <= tests_alone
    assert {"std", "uplot"} <= parts.keys()


def test_pip_installs_everything(source, tmp_path):
    target = tmp_path / "target"
    done = pip_install(source, target)
    assert done.returncode == 0, done.stdout
    package = target / "stalloc"
    assert (package / "lib" / "libstalloc_engine.so").exists()
    assert (package / "bin" / "stalloc").stat().st_mode & 0o111
    assert (package / "py.typed").exists() and (package / "integrations" / "lightning.py").exists()
    assert (target / "stalloc.pth").exists() and (target / "bin" / "stalloc").exists()
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import stalloc\n"
        "from stalloc import _library; _library.Library(_library.shim_path())"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    metadata = next(target.glob("stalloc-*.dist-info"))
    assert f"Version: {VERSION}\n" in (metadata / "METADATA").read_text()
    assert "Root-Is-Purelib: false" in (metadata / "WHEEL").read_text()
    assert (metadata / "licenses" / "LICENSE").exists()


def not_a_library(source, compiled):
    (source / "stalloc/lib/libstalloc_engine.so").write_text("version https://git-lfs\n")


def no_program(source, compiled):
    (source / "stalloc/bin/stalloc").unlink()


def another_version(source, compiled):
    file = source / "old.c"
    file.write_text(
        'const char *stalloc_version(void);\nconst char *stalloc_version(void) { return "9.9"; }'
    )
    compiled(file, "libstalloc.so", source / "stalloc/lib")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_program, r"bin/stalloc is missing: run `make build`"),
        (not_a_library, r"libstalloc_engine.so is not built for Linux on x86_64"),
        (another_version, rf"is version 9.9, the package {VERSION}: run `make build` again"),
    ],
)
def test_what_could_not_be_used_is_not_packaged(source, compiled, spoil, words):
    spoil(source, compiled)
    # What pip calls, without the environment that it makes for that: it takes seconds.
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", "built"]
    done = subprocess.run(command, cwd=source, text=True, stderr=subprocess.PIPE)
    assert done.returncode != 0 and re.search(words, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("arch", "words"),
    [
        ("aarch64", r"libstalloc.so is not built for Linux on aarch64: run `make build`"),
        ("riscv64", r"stalloc runs on x86_64 and aarch64, not on riscv64"),
    ],
)
def test_other_processors(source, arch, words):
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", "built"]
    env = {**os.environ, "STALLOC_ARCH": arch}
    done = subprocess.run(command, cwd=source, env=env, text=True, stderr=subprocess.PIPE)
    assert done.returncode != 0 and re.search(words, done.stderr), done.stderr


def backend(code, **environment):
    """Runs code with packaging/backend.py as pip does, which makes a process for each call."""
    path = os.pathsep.join([str(ROOT / "packaging"), *sys.path])
    command = [sys.executable, "-W", "ignore", "-c", f"import backend; {code}"]
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_sdist(tmp_path):
    """It holds what a build takes, as git has it, and says what it is."""
    done = backend(f"backend.build_sdist({str(tmp_path)!r})", SOURCE_DATE_EPOCH="1")
    assert done.returncode == 0, done.stderr
    base = f"stalloc-{VERSION}"
    with tarfile.open(tmp_path / f"{base}.tar.gz") as archive:
        files = {m.name.removeprefix(f"{base}/"): m for m in archive.getmembers()}
        metadata = archive.extractfile(f"{base}/PKG-INFO").read().decode()
    assert all(m.isfile() and m.mtime == 1 for m in files.values())
    assert f"Name: stalloc\nVersion: {VERSION}\n" in metadata
    assert "Classifier: Environment :: GPU :: NVIDIA CUDA\n" in metadata
    for name in ("pyproject.toml", "go.mod", "Makefile", "LICENSE", "python/LICENSE", "VERSION"):
        assert files[name].size == (ROOT / name).stat().st_size, name
    assert files["packaging/zigcc"].mode & 0o111
    folders = {name.split("/")[0] for name in files}
    assert {"cshim", "cuda", "engine", "cmd", "python"} <= folders
    assert not folders & {"tests", "docs", "bin", "build", ".venv", ".git"}
    assert not any(name.startswith("python/stalloc/lib/") for name in files)


def test_a_build_without_tools_names_them(tmp_path):
    done = backend(f"backend.build_wheel({str(tmp_path)!r})", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "needs GNU make, Go 1.26 or later (go.dev/dl), gcc: install it first" in done.stderr


def test_one_version_everywhere():
    header = (ROOT / "cshim" / "stalloc.h").read_text()
    assert f'#define STALLOC_VERSION "{VERSION}"' in header
    assert f'__version__ = "{VERSION}"' in (PYTHON / "stalloc" / "_version.py").read_text()


def test_c_knows_the_same_launchers():
    runtime = (ROOT / "cshim" / "lib" / "log.c").read_text()
    listed = runtime.split("variables[]")[1].split("}")[0]
    assert tuple(re.findall(r'"([A-Z_]+)"', listed)) == _rank.VARIABLES


def test_the_module_takes_the_path_it_is_published_under(tmp_path):
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    for name in listed.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(*command):
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    run("git", "init", "-q")
    run("git", "add", ".")
    bad = run("packaging/module_path.sh", "mine/stalloc")
    assert bad.returncode == 2 and "begin with a host" in bad.stderr
    bad = run("make", "module-path")
    assert bad.returncode == 2 and "MODULE=github.com/" in bad.stderr
    for _ in range(2):  # the second time there is nothing to do
        done = run("packaging/module_path.sh", "github.com/somebody/stalloc")
        assert done.returncode == 0, done.stderr
    listed = run("go", "list", "-deps", "./...")
    assert listed.returncode == 0, listed.stderr
    assert "\ngithub.com/somebody/stalloc/engine\n" in listed.stdout
    assert run("grep", "-rn", '"stalloc/', "--include=*.go", ".").stdout == ""
