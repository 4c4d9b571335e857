"""CUDA graphs under stalloc: what a graph replays into belongs to nobody else."""

import gpu
from gpu import MIB

torch, stalloc = gpu.start()
torch.manual_seed(3)

MODEL = torch.nn.Sequential(
    torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
).cuda()


def captured(model, x, **options):
    """A graph of model(x), and where its result will be."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options), torch.no_grad():
        out = model(x)
    return graph, out


def same(a, b):
    """Up to rounding: a graph's matrix products may use another workspace."""
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def garbage(value, blocks=16):
    """Fills memory that the graph must not have, in sizes like its own."""
    sizes = [MIB * (1 + n % 5) for n in range(blocks)]
    return [torch.full((size,), value, dtype=torch.uint8, device="cuda") for size in sizes]


def check_replay_among_other_tensors():
    x = torch.randn(256, 1024, device="cuda")
    graph, out = captured(MODEL, x)
    for value in range(5):
        kept = garbage(value)
        x.copy_(torch.randn_like(x))
        graph.replay()
        with torch.no_grad():
            assert same(out, MODEL(x)), f"replay {value}"
        assert all(bool((block == value).all()) for block in kept)
        stalloc.step()


def check_two_graphs_in_one_pool():
    x = torch.randn(128, 1024, device="cuda")
    first, out = captured(MODEL, x)
    second, again = captured(lambda y: MODEL(y) + 1, out, pool=first.pool())
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        kept = garbage(9)
        first.replay()
        second.replay()
        with torch.no_grad():
            assert same(again, MODEL(MODEL(x)) + 1)
        assert all(bool((block == 9).all()) for block in kept)


def check_a_training_step_as_a_graph():
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(64, 512, device="cuda")

    def step():
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for _ in range(10):
        graph.replay()
        losses.append(loss.item())
        stalloc.step()
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0], losses


def allocated():
    """Without cuBLAS's workspaces, which PyTorch keeps for every stream it has used."""
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated()


def check_memory_comes_back():
    before = allocated()
    x = torch.randn(256, 1024, device="cuda")
    graph, out = captured(MODEL, x)
    graph.replay()
    held = torch.cuda.memory_allocated() - before
    del graph, out, x
    left = allocated() - before
    assert left <= MIB, f"{left} bytes of {held} are still held"
    return f"{held / MIB:.1f} MiB held, then {left / MIB:.1f}"


def check_plans_go_on_beside_graphs():
    x = torch.randn(256, 1024, device="cuda")
    graph, out = captured(MODEL, x)

    def step():
        kept = garbage(4)
        graph.replay()
        with torch.no_grad():
            assert same(out, MODEL(x))
        assert all(bool((block == 4).all()) for block in kept)

    return f"served from a plan after {gpu.steps_until_planned(stalloc, step)} steps"


if __name__ == "__main__":
    gpu.run(globals())
