#!/usr/bin/env python3
"""Trains a GPT with Megatron-LM core on one GPU, under a chosen GPU memory allocator.

Model, schedule of microbatches, gradient buffers and mixed precision optimizer are Megatron's:
every layer is recomputed in the backward pass, gradients lie in one contiguous buffer and are
reduced through NCCL, even with nobody to reduce with. With --experts the feed-forward parts are
mixtures of experts, and the sizes of what they ask for follow the routing. Tokens are random.

Deterministic like train_llama.py: Megatron has kernels of its own choice for that. The
environment variable MEGATRON_PATH names a checkout of Megatron-LM (tried: core 0.20). Its
schedules run on a GPU only, a --tiny model's too.

    MEGATRON_PATH=~/Megatron-LM python examples/train_megatron.py --allocator stalloc
    MEGATRON_PATH=~/Megatron-LM python examples/train_megatron.py --experts 16
"""

import argparse
import atexit
import os
import sys
from pathlib import Path

import harness

VARIABLE = "MEGATRON_PATH"


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--layers", type=harness.positive, help="default: 16, with experts 10")
    group.add_argument("--width", type=harness.positive, default=2048)
    group.add_argument("--heads", type=harness.positive, help="default: width / 128")
    group.add_argument("--hidden", type=harness.positive, help="of a feed-forward part, an expert")
    group.add_argument("--experts", type=int, default=0, help="in each layer; 0: a dense model")
    group.add_argument("--top", type=harness.positive, default=4, help="experts a token")
    group.add_argument("--vocabulary", type=harness.positive, default=32000)
    group.add_argument("--seq", type=harness.positive, default=2048, help="tokens per sequence")
    group.add_argument("--batch", type=harness.positive, default=4, help="sequences a microbatch")
    group.add_argument("--microbatches", type=harness.positive, default=4, help="a step")
    group.add_argument("--sequences", type=harness.positive, help="a step, for --microbatches")
    group.add_argument(
        "--recompute", type=int, choices=(0, 1), default=1, help="every layer, or none"
    )
    args = parser.parse_args(argv)
    if args.sequences:
        args.microbatches = args.sequences // args.batch
    if args.tiny:
        args.layers, args.width, args.heads, args.hidden, args.vocabulary = 2, 64, 2, 96, 256
        args.seq, args.batch, args.experts = min(args.seq, 32), 2, min(args.experts, 4)
        args.top = min(args.top, args.experts or args.top)
    args.layers = args.layers or (10 if args.experts else 16)
    args.heads = args.heads or max(1, args.width // 128)
    args.hidden = args.hidden or (args.width // 2 if args.experts else 4 * args.width)
    if args.width % (2 * args.heads):
        parser.error(f"--width {args.width} must be a multiple of twice --heads {args.heads}")
    if args.experts < 0 or 0 < args.experts < args.top:
        parser.error(f"--experts {args.experts}: want at least --top ({args.top}), or 0 for none")
    absent = missing()
    if absent:
        parser.error(absent)
    return args


def missing():
    """Why Megatron-LM cannot be imported, "" if it can."""
    path = os.environ.get(VARIABLE)
    if not path:
        return f"{VARIABLE} is not set: let it name a checkout of Megatron-LM"
    if not (Path(path) / "megatron" / "core").is_dir():
        return f"{VARIABLE}={path}: there is no megatron/core; name a checkout of Megatron-LM"
    return ""


class Example(harness.Example):
    @staticmethod
    def imports():
        if os.environ[VARIABLE] not in sys.path:
            sys.path.insert(0, os.environ[VARIABLE])
        import decoder  # noqa: F401
        import megatron.core.distributed
        import megatron.core.models.gpt.gpt_layer_specs
        import megatron.core.models.gpt.gpt_model
        import megatron.core.optimizer
        import megatron.core.pipeline_parallel
        import megatron.core.tensor_parallel.random  # noqa: F401

    def setup(self, device):
        if device.type != "cuda":
            raise SystemExit("train_megatron.py: Megatron-LM's schedules need a GPU")
        self.imports()
        start_megatron(self.args, device)
        self.device = device
        self.config, self.model = make_model(self.args, device)
        self.optimizer = make_optimizer(self.args, self.config, self.model)
        return self.model

    def step(self, number):
        import torch
        from megatron.core.pipeline_parallel import get_forward_backward_func

        args = self.args
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=self._batches(number),
            model=[self.model],
            num_microbatches=args.microbatches,
            seq_length=args.seq,
            micro_batch_size=args.batch,
            forward_only=False,
        )
        self.optimizer.step()
        loss = torch.stack([each["lm loss"] for each in losses]).mean()
        return harness.Step(loss, args.microbatches * args.batch * args.seq)

    def _batches(self, number):
        import decoder

        args = self.args
        for part in range(args.microbatches):
            place = number * args.microbatches + part
            yield decoder.make_batch(args, args.batch, args.seq, place, self.device)

    def _forward(self, batches, model):
        import torch

        inputs, targets = next(batches)
        positions = torch.arange(inputs.shape[1], device=self.device).expand_as(inputs)
        return model(inputs, positions, None, labels=targets), mean_loss


def mean_loss(losses):
    loss = losses.float().mean()
    return loss, {"lm loss": loss.detach().clone()}  # the schedule divides the loss in place


def start_megatron(args, device):
    """One process is all there is to each of Megatron's groups of processes."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

    torch.cuda.set_device(device)
    if not torch.distributed.is_initialized():  # else this process has trained before
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
        atexit.register(torch.distributed.destroy_process_group)
        parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    model_parallel_cuda_manual_seed(args.seed)


def make_model(args, device):
    import torch
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.module import Float16Module
    from megatron.core.transformer.transformer_config import TransformerConfig

    more = {}
    if args.recompute:
        more = {"recompute_granularity": "full", "recompute_method": "uniform",
                "recompute_num_layers": 1}  # fmt: skip
    if args.experts:
        more |= {
            "num_moe_experts": args.experts,
            "moe_router_topk": args.top,
            "moe_aux_loss_coeff": 1e-2,
            "moe_token_dispatcher_type": "alltoall",
            "moe_ffn_hidden_size": args.hidden,
        }
    config = TransformerConfig(
        num_layers=args.layers,
        hidden_size=args.width,
        ffn_hidden_size=args.hidden,
        num_attention_heads=args.heads,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        add_bias_linear=False,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        deterministic_mode=args.deterministic,
        finalize_model_grads_func=finalize_model_grads,
        **more,
    )
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(num_experts=args.experts or None),
        vocab_size=args.vocabulary,
        max_sequence_length=args.seq,
    )
    model = Float16Module(config, model.to(device))
    buffers = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    return config, DistributedDataParallel(config, buffers, model)


def make_optimizer(args, config, model):
    import torch
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    settings = OptimizerConfig(
        optimizer="adam", lr=3e-4, weight_decay=0.1, bf16=True, params_dtype=torch.bfloat16
    )
    optimizer = get_megatron_optimizer(settings, [model], use_gloo_process_groups=False)
    config.grad_scale_func = optimizer.scale_loss
    return optimizer


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
