"""Compiles the adapter against the headers of PyTorch's releases, and runs it without a GPU.

For each version: the wheel is downloaded, its headers and its two allocator libraries are kept in
the user's cache (STALLOC_HEADERS names another folder), the wheel is deleted. The adapter is
compiled against them; then tests/adapter's program is linked with PyTorch's own libraries, a
stand-in for CUDA's runtime under them, and run over libstalloc and the simulated driver.

    python tests/torch_headers.py                  2.11 and the newest
    python tests/torch_headers.py all              the newest of each minor version from 2.6 on
    python tests/torch_headers.py 2.9 2.10.0 --build python/stalloc/lib/adapters

--json keeps a line for each version that was compiled and run, for the table in docs/pytorch.md.
--build also leaves the compiled adapters in a folder, under the names that the package looks for.
They then load wherever glibc 2.28 or a later one is. --arch compiles for another processor, with
Debian's cross compiler (g++-aarch64-linux-gnu); what it makes is run with an --emulator alone,
over the --shim and the --driver that are built for it.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from stalloc import _adapter_build  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
KEPT = Path(os.environ.get("STALLOC_HEADERS") or CACHE / "stalloc" / "headers")
BUILT = ROOT / "build" / "torch"
TESTS = ROOT / "tests" / "adapter"
SHIM = ROOT / "python" / "stalloc" / "lib" / "libstalloc.so"
DRIVER = ROOT / "build" / "fakecuda" / "libcuda.so.1"
PLATFORMS = ("manylinux_2_28", "manylinux2014", "manylinux1")
LIBRARIES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")
# The old glibc has dlopen in a library of its own.
PORTABLE = ["-include", str(ROOT / "packaging" / "old_glibc.h"), "-Wl,--no-as-needed,-l:libdl.so.2"]
# c10::Error's constructor, where strings are libstdc++'s newer kind.
NEW_ABI = b"_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx11"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


class Target:
    """What is compiled for."""

    def __init__(self, arch, emulator, shim, driver):
        self.arch, self.home = arch, arch == platform.machine()
        self.runs = self.home or bool(emulator)
        self.emulator, self.shim, self.driver = shlex.split(emulator), shim, driver

    def tool(self, name):
        return name if self.home else f"{self.arch}-linux-gnu-{name}"

    def folder(self, parent, name):
        return parent / (name if self.home else f"{name}-{self.arch}")


def run(command, **options):
    """Runs a program; its output is shown only if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}\nexit {done.returncode}"
        )
    return done.stdout


def releases():
    """Every version on the index from the oldest that the adapter knows, the newest first."""
    listed = re.search(r"Available versions: (.*)", run([*PIP, "index", "versions", "torch"]))
    found = [v.strip() for v in listed[1].split(",")]
    return [v for v in found if minor(v) >= _adapter_build.OLDEST]


def minor(version):
    return tuple(map(int, version.split(".")[:2]))


def chosen(wanted):
    """Full versions of what was asked for: minor or full versions, "newest", "all"."""
    if all(version.count(".") == 2 for version in wanted):
        return wanted
    known = releases()
    newest = {minor(v): v for v in reversed(known)}  # of each minor version
    if wanted == ["all"]:
        return list(newest.values())
    versions = []
    for version in wanted:
        if version == "newest":
            versions.append(known[0])
        else:
            versions.append(version if version.count(".") == 2 else newest[minor(version)])
    return list(dict.fromkeys(versions))


def fetch(package, to, arch, wants):
    """Takes the files that `wants` names out of a package's wheel, all of them or none."""
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        command = [*PIP, "download", "--quiet", "--no-deps", "--no-cache-dir", "-d", folder]
        command += ["--only-binary=:all:", "--python-version", "3.12", package]
        run(command + [word for p in PLATFORMS for word in ("--platform", f"{p}_{arch}")])
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            taken = Path(folder) / "taken"
            wheel.extractall(taken, [name for name in wheel.namelist() if wants(name)])
        try:
            taken.rename(to)
        except OSError:  # another process was faster
            if not to.exists():
                raise


def headers(version, target):
    """The folder with a version's headers and libraries, and that of its CUDA runtime."""
    folder = target.folder(KEPT, version)
    if not folder.exists():
        fetch(
            f"torch=={version}",
            folder,
            target.arch,
            lambda n: n.startswith("torch/include/") or n in LIBRARIES or n == "torch/version.py",
        )
    cuda = re.search(r"cuda.*?'(\d+)", (folder / "torch" / "version.py").read_text())[1]
    runtime = KEPT / f"cuda{cuda}"
    if not runtime.exists():
        name = "nvidia-cuda-runtime" + ("" if int(cuda) >= 13 else f"-cu{cuda}")
        fetch(name, runtime, platform.machine(), lambda n: "/include/" in n)
    return folder, next(runtime.rglob("cuda_runtime_api.h")).parent, cuda


def stubs(library, nm):
    """C for every function of CUDA's runtime that the library uses and fakecudart.c has not."""
    used = re.findall(r" U (cuda\w+)", run([nm, "-D", str(library)]))
    made = set(re.findall(r"^API .*?(cuda\w+)\(", (TESTS / "fakecudart.c").read_text(), re.M))
    unsupported = 801
    return "".join(
        f"int {name}(void);\nint {name}(void) {{ return {unsupported}; }}\n"
        for name in sorted(set(used) - made)
    )


def compile_all(version, build, target):
    """The adapter and the program of its tests; returns the latter's command and libraries."""
    torch, runtime, cuda = headers(version, target)
    libraries, folder = torch / "torch" / "lib", target.folder(BUILT, version)
    gxx = target.tool("g++")
    folder.mkdir(parents=True, exist_ok=True)
    abi = int(NEW_ABI in (libraries / "libc10.so").read_bytes())
    flags = _adapter_build.compile_flags(minor(version), abi, torch / "torch" / "include", runtime)
    link = [f"-L{libraries}", "-lc10", "-lc10_cuda"]
    adapter = folder / "adapter.so"
    source = str(_adapter_build.folder() / "adapter.cc")
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared"]
    run([gxx, *flags, *strict, source, "-o", str(adapter), *link, *(PORTABLE if build else [])])
    if build:
        build.mkdir(parents=True, exist_ok=True)
        major, small = minor(version)
        shutil.copy2(adapter, build / f"torch{major}.{small}-abi{abi}.so")
        run([target.tool("strip"), str(build / f"torch{major}.{small}-abi{abi}.so")])
    fake = folder / f"libcudart.so.{cuda}"
    absent = folder / "absent.c"
    absent.write_text(stubs(libraries / "libc10_cuda.so", target.tool("nm")))
    symbols = folder / "symbols"
    symbols.write_text(f"{fake.name} {{ global: *; }};\n")
    options = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{fake.name}"]
    options += [f"-Wl,--version-script={symbols}", "-o", str(fake)]
    run([target.tool("gcc"), *options, str(TESTS / "fakecudart.c"), str(absent)])
    program = folder / "program"
    paths = [f"-Wl,-rpath,{libraries}", f"-Wl,-rpath,{folder}", str(fake), "-ldl", "-pthread"]
    sources = [str(TESTS / "program.cc"), "-o", str(program)]
    run([gxx, *flags, "-O1", "-Wall", "-Wextra", "-Werror", *sources, *link, *paths])
    emulated = ["emulated"] if target.emulator else []
    return [*target.emulator, str(program), str(adapter), str(target.shim), *emulated]


def keep(file, version):
    """Notes that a version's adapter compiles and works, in place of what was noted before."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    commit = run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT).strip()
    today = datetime.date.today().isoformat()
    rows = [row for row in rows if row["torch"] != version]
    rows.append({"torch": version, "commit": commit, "date": today})
    rows.sort(key=lambda row: minor(row["torch"]))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("versions", nargs="*", help="2.11, 2.9.1, newest, all")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="keep the adapters there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep there what works")
    parser.add_argument("--arch", default=platform.machine(), help="x86_64, aarch64")
    parser.add_argument("--emulator", default="", help="command that runs another processor's")
    parser.add_argument("--shim", type=Path, default=SHIM, help="libstalloc.so of that processor")
    parser.add_argument(
        "--driver", type=Path, default=DRIVER, help="the simulated driver, likewise"
    )
    args = parser.parse_args()
    target = Target(args.arch, args.emulator, args.shim.resolve(), args.driver.resolve())
    KEPT.mkdir(parents=True, exist_ok=True)
    # An emulator keeps books of all addresses that are reserved.
    conf = f"driver:{target.driver}" + ",window:16GiB" * bool(target.emulator)
    environment = {
        **os.environ,
        "STALLOC_CONF": conf,
        "FAKECUDA_CAPACITY": str(1 << 30),
        "FAKECUDA_ANY_STREAM": "1",
        "FAKECUDA_FABRIC": "1",
    }
    for version in chosen(args.versions or ["2.11", "newest"]):
        command = compile_all(version, args.build, target)
        for kind in ("off", "fd", "fabric") if target.runs else ():
            share = {"STALLOC_CONF": f"{conf},share:{kind}"}
            run(command, env={**environment, **share}, timeout=600)
        works = " and works" if target.runs else f" for {target.arch}"
        print(f"PyTorch {version}: the adapter compiles{works}", flush=True)
        if args.json and target.runs:
            keep(args.json, version)


if __name__ == "__main__":
    main()
