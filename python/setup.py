"""What pyproject.toml cannot say: the package brings shared libraries, a program and a .pth file.

One wheel serves every Python 3, because the libraries are opened with ctypes and never touch
Python's own ABI.
"""

import ctypes
import os
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError

PACKAGE = Path(__file__).resolve().parent / "stalloc"
# For the machine that the package is for: ELF of 64 bits, x86-64.
ELF, MACHINE = b"\x7fELF\x02", (62).to_bytes(2, "little")
HOOK = "stalloc.pth"
SBOM = PACKAGE.parent / "stalloc.cdx.json"


def check(version: str) -> None:
    """Refuses what could not be used once it is installed."""
    for name in ("lib/libstalloc.so", "lib/libstalloc_engine.so", "bin/stalloc"):
        path = PACKAGE / name
        if not path.is_file():
            raise SetupError(f"{path} is missing: run `make build` in the source tree first")
        with path.open("rb") as file:
            head = file.read(20)
        if head[:5] != ELF or head[18:] != MACHINE:
            raise SetupError(f"{path} is not built for Linux on x86-64: run `make build` again")
    path = PACKAGE / "lib" / "libstalloc.so"
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
        # Beside the package, where Python looks for such files when it starts.
        self.copy_file(HOOK, os.path.join(self.build_lib, HOOK), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list:
        return [*super().get_outputs(include_bytecode), os.path.join(self.build_lib, HOOK)]


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Adds the bill of materials that `make wheel` has made, where PEP 770 wants it."""
        super().egg2dist(egginfo_path, distinfo_path)
        if SBOM.exists():
            folder = Path(distinfo_path) / "sboms"
            folder.mkdir()
            shutil.copy(SBOM, folder)

    def get_tag(self) -> tuple:
        return ("py3", "none", super().get_tag()[2])


setup(
    distclass=PlatformDistribution,
    cmdclass={"bdist_wheel": PlatformWheel, "build_py": CheckedBuild},
)
