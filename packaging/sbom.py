"""Prints what is in the wheel as a CycloneDX 1.6 bill of materials, in JSON.

    python packaging/sbom.py VERSION ./cshim/engine ./cmd/stalloc > stalloc.cdx.json

Go's toolchain lists the linked modules; Go's standard library and the bundled uPlot are added. The
same sources give the same file: it has no time and no random number.
"""

import json
import re
import sys
from pathlib import Path

from notices import go, linked

ROOT = Path(__file__).resolve().parents[1]
UPLOT = ROOT / "report" / "assets" / "uplot"


def component(name: str, version: str, purl: str) -> dict:
    found = {"type": "library", "name": name, "version": version, "purl": purl}
    return {**found, "bom-ref": purl}


def components(packages: list[str]) -> list[dict]:
    found = []
    for module in linked(packages):
        path, version = module.split()
        found.append(component(path, version, f"pkg:golang/{path.lower()}@{version}"))
    version = go("env", "GOVERSION").strip().removeprefix("go")
    found.append(component("std", version, f"pkg:golang/std@{version}"))
    text = (UPLOT / "README.md").read_text()
    if not (match := re.search(r"\d+\.\d+\.\d+", text)):
        sys.exit(f"{UPLOT / 'README.md'} names no version of uPlot")
    found.append(component("uplot", match[0], f"pkg:npm/uplot@{match[0]}"))
    return sorted(found, key=lambda c: c["purl"])


def main() -> None:
    version, *packages = sys.argv[1:]
    purl = f"pkg:pypi/stalloc@{version}"
    parts = components(packages)
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component("stalloc", version, purl)},
        "components": parts,
        "dependencies": [{"ref": purl, "dependsOn": [part["purl"] for part in parts]}],
    }
    print(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
