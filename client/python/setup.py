"""The tag of the wheel, which pyproject.toml cannot set. deploy/wheel.sh calls this."""

import os
import sys

from setuptools import Distribution, find_packages, setup

here = os.path.dirname(os.path.abspath(__file__))
if not os.path.exists(os.path.join(here, "ranklog", "_native.abi3.so")):
    sys.exit("the package has a compiled part: deploy/wheel.sh in the root of the sources makes the wheel")


class CompiledDistribution(Distribution):
    """Goes to site-packages of the platform, although setuptools compiles nothing."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=CompiledDistribution,
    packages=find_packages(here, include=["ranklog", "ranklog.*"]),
    # The library and the programs need glibc 2.28 (deploy/tarball.md), the module the limited API of 3.9.
    options={"bdist_wheel": {"py_limited_api": "cp39", "plat_name": "manylinux_2_28_x86_64"}},
)
