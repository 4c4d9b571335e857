"""A training process that waits before its steps until it is told to go on.

Several processes of one program, each under an allocator of its own, so take turns of some steps
(together.py): what happens to the machine meanwhile happens to all of them.
"""

import json

_open = None
kept = None  # the example, after its training


def open_to(commands, answers, first, every):
    """From step `first` on this process says {"paused": step} and waits for a line of `commands`,
    before every so many steps."""
    global _open, kept
    _open, kept = (commands, answers, first, every), None


def close():
    global _open, kept
    _open = kept = None


def keep(example):
    """So that a step of it can be looked at when its training has ended."""
    global kept
    kept = example if _open else None


def wait(step):
    if not _open:
        return
    commands, answers, first, every = _open
    if step >= first and (step - first) % every == 0:
        print(json.dumps({"paused": step}), file=answers, flush=True)
        if not commands.readline():
            raise SystemExit("turnstile: nobody is there any more")
