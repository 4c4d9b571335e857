#!/usr/bin/env python3
"""Trains what one GPU of the STAlloc paper's runs trains: a rank of a Megatron-LM job.

Models as in the paper (arXiv 2507.16274), split by tensor, pipeline and experts over more processes
than there are GPUs: a fake process group stands for the others, which answer at once (ranks.py).
So the memory and the kernels are a real rank's, the losses are not, and steps take no time for
communication. Where there are as many processes as ranks (torchrun) all of it is real.

    MEGATRON_PATH=~/Megatron-LM python examples/train_artifact.py --model llama2-7b --virtual 2
    MEGATRON_PATH=~/Megatron-LM torchrun --nproc-per-node 2 examples/train_artifact.py \\
        --model qwen1.5-moe --tensor 1 --pipeline 1 --experts-over 2
    MEGATRON_PATH=~/Megatron-LM torchrun --nproc-per-node 2 examples/train_artifact.py \\
        --layers 16 --tensor 1 --pipeline 2 --virtual 4 --batch 1
"""

import argparse
import sys

import harness
import ranks
import train_megatron

# Layers, width, heads, inner width, vocabulary; of experts: how many, top, inner and shared width.
MODELS = {
    "gpt2": (48, 1600, 20, 6400, 50304, None),
    "llama2-7b": (32, 4096, 32, 11008, 32000, None),
    "qwen1.5-moe": (24, 2048, 16, 5632, 151936, (60, 4, 1408, 5632)),
}


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    harness.add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--model", choices=tuple(MODELS), default="llama2-7b")
    group.add_argument("--layers", type=harness.positive, help="default: the model's")
    group.add_argument("--tensor", type=harness.positive, default=4, help="ranks a tensor")
    group.add_argument("--pipeline", type=harness.positive, default=2, help="stages")
    group.add_argument("--virtual", type=harness.positive, default=1, help="chunks a stage")
    group.add_argument("--experts-over", type=harness.positive, default=1, help="ranks")
    group.add_argument("--zero", action="store_true", help="Megatron's distributed optimizer")
    group.add_argument("--recompute-layers", type=int, default=0, help="of each chunk")
    group.add_argument("--seq", type=harness.positive, default=4096, help="tokens per sequence")
    group.add_argument("--batch", type=harness.positive, default=4, help="sequences a microbatch")
    group.add_argument("--microbatches", type=harness.positive, default=8, help="a step")
    args = parser.parse_args(argv)
    args.layers = args.layers or MODELS[args.model][0]
    args.width, args.heads, args.hidden, args.vocabulary = MODELS[args.model][1:5]
    if args.layers % (args.pipeline * args.virtual):
        parser.error(
            f"--layers {args.layers}: want a multiple of --pipeline times --virtual "
            f"({args.pipeline * args.virtual})"
        )
    if args.microbatches % args.pipeline:
        parser.error(f"--microbatches {args.microbatches}: want a multiple of {args.pipeline}")
    absent = train_megatron.missing()
    if absent:
        parser.error(absent)
    return args


class Example(train_megatron.Example):
    def setup(self, device):
        if device.type != "cuda":
            raise SystemExit("train_artifact.py: Megatron-LM's schedules need a GPU")
        self.imports()
        import torch
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

        self.device = device
        start_megatron(self.args, device)
        self.config, self.chunks = make_chunks(self.args, device)
        settings = OptimizerConfig(
            optimizer="adam", lr=3e-4, weight_decay=0.1, bf16=True, params_dtype=torch.bfloat16,
            use_distributed_optimizer=self.args.zero,
        )  # fmt: skip
        self.optimizer = get_megatron_optimizer(
            settings, self.chunks, use_gloo_process_groups=False
        )
        self.config.grad_scale_func = self.optimizer.scale_loss
        return torch.nn.ModuleList(self.chunks)

    def step(self, number):
        import torch
        from megatron.core.pipeline_parallel import get_forward_backward_func

        args = self.args
        for chunk in self.chunks:
            chunk.zero_grad_buffer()
        self.optimizer.zero_grad()
        batches = [self._batches(number) for _ in self.chunks]
        losses = get_forward_backward_func()(
            forward_step_func=self._forward,
            data_iterator=batches if len(batches) > 1 else batches[0],
            model=self.chunks,
            num_microbatches=args.microbatches,
            seq_length=args.seq,
            micro_batch_size=args.batch,
            forward_only=False,
        )
        self.optimizer.step()
        # The last stage has a loss.
        each = [loss["lm loss"] for loss in losses if isinstance(loss, dict)]
        loss = torch.stack(each).mean() if each else torch.zeros((), device=self.device)
        return harness.Step(loss, args.microbatches * args.batch * args.seq)


def start_megatron(args, device):
    """Megatron's groups over the job's processes."""
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

    if ranks.join(device, args.tensor * args.pipeline * args.experts_over):
        parallel_state.initialize_model_parallel(
            args.tensor,
            args.pipeline,
            args.virtual if args.virtual > 1 else None,
            expert_model_parallel_size=args.experts_over,
            create_gloo_process_groups=False,
        )
    model_parallel_cuda_manual_seed(args.seed)


def make_chunks(args, device):
    """The configuration, and this rank's part of the model: one chunk, or --virtual."""
    from megatron.core import parallel_state
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.module import Float16Module

    config = make_config(args, finalize_model_grads)
    buffers = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=args.zero
    )
    chunks = []
    for stage in range(args.virtual):
        model = GPTModel(
            config,
            layer_spec(args),
            vocab_size=args.vocabulary,
            max_sequence_length=args.seq,
            # The first rank of a pipeline has the embedding, the last one the logits.
            pre_process=stage == 0 and parallel_state.is_pipeline_first_stage(),
            post_process=stage == args.virtual - 1 and parallel_state.is_pipeline_last_stage(),
            position_embedding_type="learned_absolute" if args.model == "gpt2" else "rope",
            vp_stage=stage if args.virtual > 1 else None,
        )
        model.vp_stage = stage if args.virtual > 1 else None
        model = Float16Module(config, model.to(device))
        chunks.append(DistributedDataParallel(config, buffers, model, disable_bucketing=stage > 0))
    return config, chunks


def make_config(args, finalize):
    import torch
    from megatron.core.transformer.transformer_config import TransformerConfig

    more = {}
    if args.model != "gpt2":
        more.update(
            gated_linear_unit=True, activation_func=torch.nn.functional.silu,
            normalization="RMSNorm", add_bias_linear=False,
        )  # fmt: skip
    experts = MODELS[args.model][5]
    if experts:
        more.update(
            num_moe_experts=experts[0], moe_router_topk=experts[1],
            moe_ffn_hidden_size=experts[2], moe_shared_expert_intermediate_size=experts[3],
            moe_aux_loss_coeff=1e-2, moe_token_dispatcher_type="alltoall",
            expert_model_parallel_size=args.experts_over,
        )  # fmt: skip
    if args.recompute_layers:
        more.update(
            recompute_granularity="full", recompute_method="block",
            recompute_num_layers=args.recompute_layers,
        )  # fmt: skip
    if args.virtual > 1:
        more.update(
            virtual_pipeline_model_parallel_size=args.virtual, overlap_p2p_comm=True,
            batch_p2p_comm=False,
        )  # fmt: skip
    return TransformerConfig(
        num_layers=args.layers, hidden_size=args.width, ffn_hidden_size=args.hidden,
        num_attention_heads=args.heads, attention_dropout=0.0, hidden_dropout=0.0, bf16=True,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=args.tensor, pipeline_model_parallel_size=args.pipeline,
        deallocate_pipeline_outputs=True, deterministic_mode=args.deterministic,
        finalize_model_grads_func=finalize, **more,
    )  # fmt: skip


def layer_spec(args):
    """Megatron's own layers, with PyTorch's fused attention: the paper's runs have one, too."""
    import torch
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    class Fused(torch.nn.Module):
        def __init__(self, **_):
            super().__init__()

        def forward(self, query, key, value, attention_mask, **_):
            queries, keys, values = (x.permute(1, 2, 0, 3) for x in (query, key, value))
            mixed = torch.nn.functional.scaled_dot_product_attention(
                queries, keys, values, is_causal=True
            )
            return mixed.permute(2, 0, 1, 3).flatten(2)

    experts = MODELS[args.model][5]
    spec = get_gpt_layer_local_spec(
        num_experts=experts[0] if experts else None,
        normalization=None if args.model == "gpt2" else "RMSNorm",
    )
    spec.submodules.self_attention.submodules.core_attention = Fused
    return spec


def main(argv=None):
    args = parse_arguments(argv)
    return harness.run(args, Example(args))


if __name__ == "__main__":
    sys.exit(main())
