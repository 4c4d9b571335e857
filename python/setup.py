"""What pyproject.toml cannot express: the package has shared libraries, a program and a .pth file.

One wheel serves every Python 3, because the libraries are opened with ctypes and do not use
Python's ABI.
"""

import ctypes
import os
import platform
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError

PACKAGE = Path(__file__).resolve().parent / "stalloc"
# The processor that the package is built for.
ARCH = os.environ.get("STALLOC_ARCH") or platform.machine()
# ELF of 64 bits, and its numbers of processors.
ELF, MACHINES = b"\x7fELF\x02", {"x86_64": 62, "aarch64": 183}
HOOK = "stalloc.pth"
SBOM = PACKAGE.parent / "stalloc.cdx.json"


def check(version: str) -> None:
    """Refuses a package that would not work once installed."""
    if ARCH not in MACHINES:
        raise SetupError(f"stalloc runs on {' and '.join(MACHINES)}, not on {ARCH}")
    for name in ("lib/libstalloc.so", "lib/libstalloc_engine.so", "bin/stalloc"):
        path = PACKAGE / name
        if not path.is_file():
            raise SetupError(f"{path} is missing: run `make build` in the source tree first")
        with path.open("rb") as file:
            head = file.read(20)
        if head[:5] != ELF or head[18:] != MACHINES[ARCH].to_bytes(2, "little"):
            raise SetupError(f"{path} is not built for Linux on {ARCH}: run `make build` again")
    path = PACKAGE / "lib" / "libstalloc.so"
    if platform.machine() != ARCH:  # of another processor: it cannot be loaded here
        if version.encode() + b"\0" not in path.read_bytes():
            raise SetupError(f"{path} is not version {version}: run `make build` again")
        return
    try:
        ask = ctypes.CDLL(str(path)).stalloc_version
    except (OSError, AttributeError) as error:
        raise SetupError(f"{path} cannot be used ({error}): run `make build` again") from error
    ask.restype = ctypes.c_char_p
    if ask().decode() != version:
        raise SetupError(
            f"{path} is version {ask().decode()}, the package {version}: run `make build` again"
        )


class CheckedBuild(build_py):
    def run(self) -> None:
        check(self.distribution.get_version())
        super().run()
        # Beside the package, where Python searches for .pth files when it starts.
        self.copy_file(HOOK, os.path.join(self.build_lib, HOOK), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list:
        return [*super().get_outputs(include_bytecode), os.path.join(self.build_lib, HOOK)]


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Adds the bill of materials that `make wheel` has made, at PEP 770's place."""
        super().egg2dist(egginfo_path, distinfo_path)
        if SBOM.exists():
            folder = Path(distinfo_path) / "sboms"
            folder.mkdir()
            shutil.copy(SBOM, folder)

    def get_tag(self) -> tuple:
        return ("py3", "none", f"linux_{ARCH}")


setup(
    distclass=PlatformDistribution,
    cmdclass={"bdist_wheel": PlatformWheel, "build_py": CheckedBuild},
)
