#!/usr/bin/env python3
"""Nine programs of other people's libraries, with random weights and data, to be recorded.

    python examples/apart_program.py detection
    python examples/apart_program.py t5 --tiny                # seconds on a CPU

They are as the libraries' own guides have them, and know nothing of stalloc: no step is marked.
What differs from step to step is what differs in such training: sizes of images, lengths of
sounds and texts, how much is generated. apart.py records all of them.
"""

import argparse
import random
import sys

import apart_text
import apart_vision
import measure

# By name: the program, and the modules that it needs.
PROGRAMS = {
    "detection": (apart_vision.detection, ("torchvision",)),
    "diffusion": (apart_vision.diffusion, ("diffusers",)),
    "embeddings": (apart_text.embeddings, ("sentence_transformers",)),
    "grpo": (apart_text.grpo, ("transformers",)),
    "images": (apart_vision.images, ("timm",)),
    "packing": (apart_text.packing, ("transformers", "accelerate")),
    "speech": (apart_text.speech, ("transformers",)),
    "t5": (apart_text.t5, ("transformers", "accelerate")),
    "unet3d": (apart_vision.unet3d, ("monai",)),
}

# Steps of each, where nobody says another number.
STEPS = {
    "detection": 8, "diffusion": 8, "embeddings": 4, "grpo": 5, "images": 9, "packing": 10,
    "speech": 10, "t5": 6, "unet3d": 12,
}  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", choices=tuple(PROGRAMS))
    parser.add_argument("--steps", type=int, help="default: the program's own")
    parser.add_argument("--tiny", action="store_true", help="a model for a smoke test on the CPU")
    o = parser.parse_args(argv)
    o.steps = o.steps or STEPS[o.program]
    import torch

    o.kind = "cuda" if torch.cuda.is_available() and not o.tiny else "cpu"
    if o.kind == "cpu" and not o.tiny:
        raise SystemExit("no GPU here: add --tiny for a smoke test on the CPU")
    o.device, o.draw = torch.device(o.kind), random.Random(1)
    o.fused = {"fused": True} if o.kind == "cuda" else {}
    torch.manual_seed(1)
    measure.require_sound(PROGRAMS[o.program][0](o))
    return 0


if __name__ == "__main__":
    sys.exit(main())
