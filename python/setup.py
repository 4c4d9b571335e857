"""Marks the wheel as platform-specific: it carries shared libraries, yet no Python extension.

Everything else stands in pyproject.toml. One wheel serves every Python 3, because the
libraries are opened with ctypes and never touch Python's own ABI.
"""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    def get_tag(self) -> tuple:
        return ("py3", "none", super().get_tag()[2])


setup(distclass=PlatformDistribution, cmdclass={"bdist_wheel": PlatformWheel})
