#!/usr/bin/env python3
"""Trains a graph attention network with PyTorch Geometric, under a chosen GPU memory allocator.

Every step has another graph: the number of its nodes and that of its edges are drawn from the
seed, as with sampled neighbourhoods, and all sizes of a step follow these two. Graphs, features
and labels are random. Weights and arithmetic are float32.

Deterministic like train_llama.py: PyTorch then scatters by sorting instead of adding atomically.
Needs torch_geometric.

    python examples/train_pyg.py --allocator stalloc
    python examples/train_pyg.py --tiny                        # seconds on a CPU
"""

import argparse
import random
import sys

import harness


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, default=6)
    group.add_argument("--width", type=harness.positive, default=128, help="of all heads together")
    group.add_argument("--heads", type=harness.positive, default=4)
    group.add_argument("--features", type=harness.positive, default=128, help="of a node")
    group.add_argument("--classes", type=harness.positive, default=40)
    group.add_argument("--nodes", type=harness.positive, default=60_000, help="at most")
    group.add_argument("--degree", type=harness.positive, default=15, help="edges a node, at most")
    args = parser.parse_args(argv)
    if args.tiny:
        args.width, args.heads, args.features, args.classes = 16, 2, 8, 4
        args.nodes, args.degree = min(args.nodes, 60), min(args.degree, 4)
    if args.width % args.heads:
        parser.error(f"--width {args.width} must be a multiple of --heads {args.heads}")
    absent = harness.missing("torch_geometric")
    if absent:
        parser.error(absent)
    return args


def draw_graph(args, draw):
    """The numbers of nodes and of edges, each between half and all of what is allowed."""
    nodes = draw.randint(-(-args.nodes // 2), args.nodes)
    return nodes, round(nodes * args.degree * draw.uniform(0.5, 1))


class Example(harness.Example):
    name = "nodes"

    def setup(self, device):
        import torch
        from torch_geometric.nn import GAT

        args, self.device = self.args, device
        with torch.device(device):
            self.model = GAT(
                args.features, args.width, args.layers, args.classes, v2=False, heads=args.heads
            )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=5e-3)
        return self.model

    def step(self, number):
        import decoder
        import torch.nn.functional as F

        draw = random.Random(self.args.seed * 1_000_003 + number)
        nodes, edges = draw_graph(self.args, draw)
        features, labels, ends = self._graph(nodes, edges, number)
        loss = F.cross_entropy(self.model(features, ends), labels)
        return harness.Step(decoder.update(loss, self.optimizer), nodes)

    def _graph(self, nodes, edges, number):
        """Made on the device: no step waits for the host."""
        import torch

        generator = torch.Generator(self.device).manual_seed(self.args.seed * 1_000_003 + number)
        options = {"device": self.device, "generator": generator}
        features = torch.randn((nodes, self.args.features), **options)
        labels = torch.randint(self.args.classes, (nodes,), **options)
        return features, labels, torch.randint(nodes, (2, edges), **options)


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
