"""Training steps in graphs: a whole step, layer by layer, and torch.compile's reduce-overhead mode.

A case says losses, a digest of the parameters, what was reserved, the bytes that must live for it
(cases.Lives), and what a step takes."""

from cases import Lives, run, torch
from replays import adam, capture, compiled, replayed, trained, update


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.inner = torch.nn.Linear(width, 3 * width)
        self.outer = torch.nn.Linear(width, width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        heads = self.inner(self.first(x)).unflatten(-1, (3, -1, 64))
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.outer(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.second(x))))


def decoder(layers, width):
    return torch.nn.Sequential(*(Block(width) for _ in range(layers))).cuda().bfloat16()


def whole_step():
    torch.manual_seed(1)
    lives = Lives()
    model = decoder(8, 1024)
    optimizer = adam(model)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step():
        return update((model(x) - x).float().square().mean(), optimizer)

    return replayed(capture(step, lives), lives, model)


def layer_by_layer():
    torch.manual_seed(2)
    lives = Lives()
    model = decoder(6, 1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    lives.begin()
    layers = torch.cuda.make_graphed_callables(tuple(model), ((x,),) * 6)

    def step():
        y = x
        for layer in layers:
            y = layer(y)
        return update((y - x.detach()).float().square().mean(), optimizer)

    return replayed(step, lives, model)


def train_compiled(shapes, steps):
    torch.manual_seed(3)
    lives = Lives()
    model = decoder(4, 768)
    inputs = [torch.randn(*s, 768, device="cuda", dtype=torch.bfloat16) for s in shapes]
    run_model = compiled(model)

    def loss_of(x):
        return (run_model(x) - x).float().square().mean()

    return trained(lives, model, loss_of, inputs, steps)


def reduce_overhead():
    return train_compiled([(8, 512)], 60)


def reduce_overhead_of_three_shapes():
    return train_compiled([(8, 512), (8, 384), (4, 512)], 60)


run(globals())
