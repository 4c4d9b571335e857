"""What examples/ranks.py fills, and what measure.py says of numbers that are none."""

import math
import sys
import types

import measure
import pytest
import ranks


class Tensor:
    """A list of numbers that knows what ranks.fill asks of a tensor."""

    def __init__(self, values, floats=True, dtype="bf16"):
        self.values, self.floats, self.dtype = list(values), floats, dtype
        self.shape, self.device = (len(self.values),), "cpu"

    def numel(self):
        return len(self.values)

    def is_floating_point(self):
        return self.floats

    def detach(self):
        return self

    def reshape(self, *shape):
        return self

    def view(self, *shape):
        return self

    def __getitem__(self, part):
        return Tensor(self.values[part], self.floats, self.dtype)

    def copy_(self, source):
        times = len(self.values) // len(source.values)
        self.values[:] = source.values * times

    def unbind(self):
        half = len(self.values) // 2
        return [Part(self, 0, half), Part(self, half, 2 * half)] if half else [self]

    def data_ptr(self):
        return id(self.values)

    def zero_(self):
        self.values[:] = [0] * len(self.values)

    def normal_(self, mean, deviation, generator):
        self.values[:] = [deviation] * len(self.values)

    def to_local(self):
        return self

    def all(self):
        return all(math.isfinite(value) for value in self.values)


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    class Quiet:
        __enter__ = __exit__ = lambda *_: None

    torch = types.SimpleNamespace(
        Tensor=Tensor, no_grad=Quiet, isfinite=lambda x: x,
        Generator=lambda device: types.SimpleNamespace(manual_seed=lambda seed: seed),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)


class Part(Tensor):
    """A half of a tensor."""

    def __init__(self, whole, start, end):
        super().__init__(whole.values[start:end], whole.floats, whole.dtype)
        self.whole, self.start = whole, start

    def copy_(self, source):
        super().copy_(source)
        self.whole.values[self.start : self.start + len(self.values)] = self.values


def group():
    """A process group that writes into nothing."""

    class Group:
        pass

    for method in ranks.METHODS:
        setattr(Group, method, lambda self, *arguments: "work")
    ranks.fill_outputs(Group)
    ranks.fill_outputs(Group)  # a second time is none
    return Group()


NAN = float("nan")


def junk(n, **how):
    return Tensor([NAN] * n, **how)


def test_each_method_leaves_numbers():
    for method in ranks.METHODS:
        for inputs in ([junk(0)], [Tensor([1, 2])], [Tensor([1, 2]), Tensor([3, 4])], []):
            out = junk(4)
            arguments = [[out], inputs] if inputs else [[out]]
            assert getattr(group(), method)(*arguments) == "work"
            assert out.all(), (method, [x.values for x in inputs])


def test_what_is_like_this_rank():
    out = junk(4)
    group()._allgather_base(out, Tensor([1, 2]))
    assert out.values == [1, 2, 1, 2]
    out = junk(2)
    group()._reduce_scatter_base(out, Tensor([1, 2, 3, 4]))
    assert out.values == [1, 2]
    out = junk(2)
    group().alltoall_base(out, Tensor([5, 6]), [], [])
    assert out.values == [5, 6]
    outs = [junk(1), junk(1)]
    group().alltoall(outs, [Tensor([7]), Tensor([8])])
    assert [out.values for out in outs] == [[7], [8]]
    out = junk(2, floats=False, dtype="int")
    group().recv([out], 1, 0)
    assert out.values == [0, 0]
    out = junk(2)
    group()._reduce_scatter_base(out, Tensor([1, 2, 3, 4], dtype="fp32"))  # another type
    assert out.values == [1e-3, 1e-3]


def model(**parameters):
    return types.SimpleNamespace(named_parameters=lambda: parameters.items())


def test_what_is_not_finite_is_named():
    steps = [{"step": 3, "loss": 1.0}, {"step": 4, "loss": math.inf}]
    good = model(a=Tensor([1]), b=Tensor([2]))
    assert measure.not_finite(steps[:1], good) == ""
    assert "loss of step 4 is inf" in measure.not_finite(steps, good)
    assert "evaluation of step 5" in measure.not_finite(
        [{"step": 5, "loss": 1.0, "evaluation": NAN}], good
    )
    assert "parameter b is not finite" in measure.not_finite([], model(a=Tensor([1]), b=junk(1)))
    measure.require_sound(good, [1.0])
    with pytest.raises(SystemExit, match="parameter a"):
        measure.require_sound(model(a=junk(1)))
