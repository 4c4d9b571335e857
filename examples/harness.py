"""What every training example shares: its options, the allocator, determinism, the loop.

An example trains the same model on the same data under one of several allocators and writes
what it saw as JSON; compare.py runs it once per allocator and sets the results side by side.
It gives run() an Example of its own.
"""

import argparse
import dataclasses
import functools
import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

import ledger
import measure
import turnstile

NATIVE_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
# PyTorch's own allocators, by its setting.
PYTORCHS = {
    "native": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}
EXIT_OUT_OF_MEMORY = 3
EXIT_WRONG = 4
# How running out of memory reads: the allocators' own errors, and cuBLAS's for its workspace.
OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclasses.dataclass
class Step:
    """What an example says about a step it has trained."""

    loss: Any  # a detached tensor of one number
    items: int  # tokens or images trained on
    phase: str = "train"  # steps of different phases ask for different memory
    evaluation: Optional[float] = None


class Example:
    """Has setup(device), which makes the model and the optimizer and returns the model, and either

    step(number)    trains step `number`, counted from 0; returns a Step
    train(loop)     trains all steps, where the loop over them is in a library: loop.begin() and
                    loop.end(Step) around each
    """

    name = "tokens"  # what it trains on: "images", "nodes"

    def __init__(self, args):
        self.args = args

    @staticmethod
    def imports():
        """Imports what training needs, so that a process can do so before it is told to train."""
        import torch  # noqa: F401


def add_arguments(parser):
    group = parser.add_argument_group("run")
    group.add_argument("--steps", type=positive, default=24)
    group.add_argument("--seed", type=int, default=1234)
    group.add_argument(
        "--allocator",
        default="native",
        metavar="NAME",
        help="native, expandable, async (cudaMallocAsync), stalloc, or stalloc with settings: "
        "stalloc:key=value,key=value",
    )
    group.add_argument(
        "--boundary",
        choices=("explicit", "optimizer"),
        default="explicit",
        help="who marks the steps for stalloc: the loop (stalloc.step()) or the optimizer's hook",
    )
    group.add_argument("--memory-cap", type=float, metavar="GIB", help="use no more than this")
    group.add_argument("--json", type=ledger.file, metavar="FILE", help="the measurements")
    group.add_argument(
        "--no-deterministic",
        dest="deterministic",
        action="store_false",
        help="let PyTorch use its usual kernels; losses are then not comparable bit for bit",
    )
    group.add_argument("--tiny", action="store_true", help="a model for a smoke test on the CPU")


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def parse_known(parser, argv):
    """What a parser knows of the arguments; the others, which are for programs, are `rest`."""
    args, rest = parser.parse_known_args(argv)
    args.rest = [option for option in rest if option != "--"]
    return args


@functools.cache
def choose_allocator(name):
    """Sets up the allocator called `name`. Must run before anything imports torch; in a process
    that trains again (workers.py) it is there already.

    Returns the stalloc module if steps are to be marked with it, else None. In a script that
    runs under stalloc.record, PyTorch is there already, with the allocator it is recorded under.
    """
    if is_recorded():
        if name != "native":
            raise SystemExit(f"--allocator {name}: a run is recorded under PyTorch's own allocator")
        return sys.modules["stalloc"]
    if "torch" in sys.modules:
        raise RuntimeError("choose_allocator: torch is already imported; call this before")
    kind, _, settings = name.partition(":")
    if kind not in (*PYTORCHS, "stalloc") or (settings and kind != "stalloc"):
        raise SystemExit(
            f"--allocator {name}: expected {', '.join(PYTORCHS)}, stalloc or stalloc:key=value,..."
        )
    for variable in NATIVE_VARIABLES:
        os.environ.pop(variable, None)
    if PYTORCHS.get(kind):
        os.environ[native_variable()] = PYTORCHS[kind]
    if kind != "stalloc":
        return None
    pairs = (setting.partition("=") for setting in settings.split(",") if setting)
    package().enable(**{key: value for key, _, value in pairs})
    return package()


def package():
    """The module stalloc, of this checkout where it is not installed."""
    try:
        import stalloc
    except ImportError:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
        import stalloc
    return stalloc


def missing(*modules):
    """What to say of those of the modules that are not installed, "" if all are there."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"not installed: {' '.join(absent)} (pip install it)" if absent else ""


def needs(*modules):
    """missing() of the modules, to be asked later."""
    return lambda: missing(*modules)


def is_recorded():
    """Whether this script runs under `python -m stalloc.record`."""
    stalloc = sys.modules.get("stalloc")
    return stalloc is not None and stalloc.is_recording()


def native_variable():
    """The name under which this release of PyTorch looks for its allocator's settings."""
    try:
        major, minor = (int(part) for part in metadata.version("torch").split(".")[:2])
    except metadata.PackageNotFoundError:
        raise SystemExit("the examples need PyTorch: pip install torch") from None
    return "PYTORCH_ALLOC_CONF" if (major, minor) >= (2, 9) else "PYTORCH_CUDA_ALLOC_CONF"


def make_deterministic():
    """Same program, same bits: any difference then comes from the allocator.

    Not with warn_only=True: PyTorch's flash attention then keeps its usual backward pass, whose
    atomic additions come in any order.
    """
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch

    torch.use_deterministic_algorithms(True)
    # PyTorch would fill every new tensor with NaN, to hide reads of uninitialised memory. An
    # allocator that hands out memory in use shall not be hidden, nor the steps slowed down.
    torch.utils.deterministic.fill_uninitialized_memory = False


def run(args, example):
    """Trains the example as the options say; returns the exit status."""
    if "LOCAL_RANK" in os.environ:  # started by torchrun: each process sees its own GPU alone
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    stalloc = choose_allocator(args.allocator)
    if args.deterministic:
        make_deterministic()
    import torch

    on_gpu = torch.cuda.is_available()
    if not on_gpu and not args.tiny:
        raise SystemExit("no GPU here: add --tiny for a smoke test on the CPU")
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    torch.manual_seed(args.seed)
    recorder = measure.Recorder(args, device, None if is_recorded() else stalloc)
    loop = Loop(args, recorder, stalloc)
    try:
        model = example.setup(device)
        recorder.setup_done()
        if is_recorded():
            stalloc.mark("step 0")
        if hasattr(example, "train"):
            example.train(loop)
        else:
            for number in range(args.steps):
                loop.begin()
                loop.end(example.step(number))
    except RuntimeError as error:  # torch.OutOfMemoryError is one, stalloc's is a plain one
        if not any(text in str(error) for text in OUT_OF_MEMORY):
            raise
        recorder.out_of_memory(loop.number, error)
        recorder.report()
        return EXIT_OUT_OF_MEMORY
    turnstile.keep(example)
    weights = sum(parameter.numel() for parameter in model.parameters())
    wrong = measure.not_finite(recorder.steps, model) or measure.not_served(stalloc)
    recorder.report(
        items=example.name, parameters=weights, checksum=measure.checksum(model),
        finite=not wrong, **({"failed": wrong} if wrong else {}),
    )  # fmt: skip
    if wrong:
        print(f"{args.allocator:>12} {wrong}", file=sys.stderr)
        return EXIT_WRONG
    return 0


class Loop:
    """Where a run's steps begin and end: there they are marked for stalloc, and measured."""

    def __init__(self, args, recorder, stalloc):
        self.number = -1  # of the step under way
        self._recorder = recorder
        self._mark = stalloc.step if stalloc and args.boundary == "explicit" else lambda: None

    def begin(self):
        self.number += 1
        turnstile.wait(self.number)
        self._recorder.begin()

    def end(self, step):
        self._mark()
        self._recorder.end(self.number, step.phase, step.loss.item(), step.items)
        if step.evaluation is not None:
            self._recorder.evaluation(step.evaluation)
