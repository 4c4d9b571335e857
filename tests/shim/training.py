"""Folders that hold a stand-in for PyTorch over the real libraries and the simulated driver.

The stand-in is a package `torch` that can be imported: it takes stalloc's functions as PyTorch
does and calls them when train.py asks for memory.
"""

import os
import subprocess
import sys
from pathlib import Path

from programs import DRIVER, ROOT

# There is nothing to compile an adapter against.
CONF = f"driver:{DRIVER},route:pluggable"
DOUBLES = ROOT / "tests" / "python"

TORCH = f"""
import sys
from pathlib import Path
sys.path.append({str(DOUBLES)!r})
import faketorch
torch = sys.modules["torch"] = faketorch.FakeTorch(Path(__file__).parent)
torch.__spec__ = __spec__  # other threads wait for the import
sys.modules["torch.optim.optimizer"] = torch.optimizers
"""

# Six steps of three blocks. What the process knows of itself goes to standard output.
PROGRAM = """
import sys
import torch

class Optimizer:
    pass

def train():
    torch.start_cuda()
    optimizer = Optimizer()
    for _ in range(6):
        blocks = [torch.malloc(size) for size in (1 << 20, 3 << 20, 5 << 20)]
        assert all(blocks)
        for block in blocks:
            torch.free(block, 0)
        torch.step(optimizer)

if __name__ == "__main__":
    main = sys.modules["__main__"]
    print(sys.argv, __name__, getattr(main, "__file__", None), sys.path[0], main.train is train)
    print("pluggable" if torch.installed else "native")
    if torch.installed:
        train()
"""


class Training:
    """A folder with train.py and the stand-in, and how to start programs there."""

    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "site" / "torch" / "lib").mkdir(parents=True)
        (self.folder / "site" / "torch" / "__init__.py").write_text(TORCH)
        library = self.folder / "site" / "torch" / "lib" / "libc10.so"
        command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(DOUBLES / "stub_c10.c")]
        subprocess.run(command, check=True)
        (self.folder / "work").mkdir()
        (self.folder / "work" / "train.py").write_text(PROGRAM)

    def start(self, *arguments, python=sys.executable, status=0, stalloc=ROOT / "python", **more):
        """(stdout, stderr) of `python arguments...`; stalloc=None: the one that is installed."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STALLOC", "FAKECUDA_"))}
        env = {k: v for k, v in env.items() if "RANK" not in k and "WORLD" not in k}
        path = [str(self.folder / "site"), *([str(stalloc)] if stalloc else [])]
        env |= {"PYTHONPATH": os.pathsep.join(path), "STALLOC_CONF": CONF}
        env |= {"FAKECUDA_CAPACITY": str(1 << 30), "FAKECUDA_ANY_STREAM": "1"} | more
        done = subprocess.run(
            [str(python), *map(str, arguments)],
            cwd=self.folder / "work",
            env=env,
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout, done.stderr
