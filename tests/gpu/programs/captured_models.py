"""Training steps in graphs: examples/train_llama.py, a whole step and layer by layer; GPT-2 small
in torch.compile's reduce-overhead mode.

What a case says: see captured.py."""

import sys
import types
from pathlib import Path

from cases import Lives, run, torch
from replays import adam, capture, compiled, replayed, trained, update

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
import decoder  # noqa: E402
import train_llama  # noqa: E402

DEVICE = torch.device("cuda")
BATCH, LENGTH = 8, 512
CONFIG = train_llama.Config(layers=12, width=1024, heads=8, vocabulary=32000, recompute=False)


def llama():
    model, _ = decoder.build(lambda: train_llama.make_model(CONFIG), DEVICE)
    return model


def batches(number, vocabulary):
    """Each is a pair: tokens, and those that follow."""
    source = types.SimpleNamespace(seed=5, vocabulary=vocabulary)
    return [decoder.make_batch(source, BATCH, LENGTH, k, DEVICE) for k in range(number)]


def feeding(replay, to, pairs):
    """A step that first writes the next pair into the graph's inputs."""
    count = 0

    def step():
        nonlocal count
        for static, fresh in zip(to, pairs[count % len(pairs)]):
            static.copy_(fresh)
        count += 1
        return replay()

    return step


def llama_whole_step():
    torch.manual_seed(4)
    lives = Lives()
    model = llama()
    optimizer, pairs = adam(model), batches(4, CONFIG.vocabulary)
    tokens, targets = (t.clone() for t in pairs[0])

    def step():
        return update(decoder.loss_of(model(tokens)[0], targets), optimizer)

    with decoder.fast_attention(DEVICE):
        replay = capture(step, lives)
    return replayed(feeding(replay, (tokens, targets), pairs), lives, model)


class Layer(torch.nn.Module):
    """A block of the decoder as a function of one tensor."""

    def __init__(self, block, cos, sin):
        super().__init__()
        self.block = block
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x):
        return self.block(x, self.cos, self.sin, decoder.causal)[0]


def llama_layer_by_layer():
    torch.manual_seed(4)
    lives = Lives()
    model = llama()
    optimizer, pairs = torch.optim.AdamW(model.parameters(), lr=1e-4), batches(4, CONFIG.vocabulary)
    tokens, targets = (t.clone() for t in pairs[0])
    x = model.embedding(tokens).detach().requires_grad_()
    angles = model._angles(LENGTH, None, x)
    blocks = tuple(Layer(block, *angles) for block in model.blocks)
    lives.begin()
    with decoder.fast_attention(DEVICE):
        layers = torch.cuda.make_graphed_callables(blocks, ((x,),) * len(blocks))

    def step():
        y = model.embedding(tokens)
        for layer in layers:
            y = layer(y)
        loss = decoder.loss_of(model.head(model.norm(y)), targets)
        return update(loss, optimizer)

    return replayed(feeding(step, (tokens, targets), pairs), lives, model)


def gpt2_reduce_overhead():
    """Its layers: deterministic gradients of an embedding keep a compiled graph from capture."""
    import transformers

    torch.manual_seed(6)
    lives = Lives()
    config = transformers.GPT2Config(attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, use_cache=False)
    model = transformers.GPT2LMHeadModel(config).to(DEVICE, torch.bfloat16)
    model.transformer.wpe.requires_grad_(False)
    layers = compiled(model.transformer)

    def loss_of(pair):
        tokens, targets = pair
        x = layers(inputs_embeds=model.transformer.wte(tokens)).last_hidden_state
        return decoder.loss_of(model.lm_head(x), targets)

    return trained(lives, model, loss_of, batches(1, config.vocab_size), 60)


run(globals())
