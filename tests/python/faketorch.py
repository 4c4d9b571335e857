"""A test double of PyTorch: the surface that stalloc touches, without PyTorch.

Its torch.cuda functions call torch._C at each use, as PyTorch's do, and its torch._C refuses
what PyTorch's refuses under a pluggable allocator.
"""

import contextlib
import ctypes
import types
from collections import OrderedDict


class Refusal:
    """A function of torch._C that a pluggable allocator does not support."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"CUDAPluggableAllocator does not yet support {self.name}.")


class Allocator:
    """torch._C._CUDAPluggableAllocator: remembers what it was given."""

    def __init__(self, alloc, free):
        self.alloc, self.free, self.hooks = alloc, free, {}


SETTERS = (
    "set_init_fn",
    "set_reset_fn",
    "set_memory_fraction_fn",
    "set_base_alloc_fn",
    "set_record_stream_fn",
    "set_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn",
    "set_release_pool",
)


class HookedAllocator(Allocator):
    """With the eight setters, as in PyTorch 2.3 and later."""


def _setter(name):
    def set_hook(self, address):
        self.hooks[name] = address

    return set_hook


for _name in SETTERS:
    setattr(HookedAllocator, _name, _setter(_name))


class RemovableHandle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self._hooks.remove(self._hook)


class BenchmarkProperty:
    """torch.backends.ContextProp."""

    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, instance, owner):
        return self.getter()

    def __set__(self, instance, value):
        self.setter(value)


class FakeTorch(types.ModuleType):
    """The module `torch`, version 2.11 with CUDA unless told otherwise."""

    def __init__(self, folder, version="2.11.0", cuda="13.0", hip=None, allocator=HookedAllocator):
        super().__init__("torch")
        self.__file__ = str(folder / "__init__.py")
        self.__version__ = version
        self.version = types.SimpleNamespace(cuda=cuda, hip=hip)
        self.installed = None  # the allocator in place
        self._initialized = self.capturing = False
        self._allocator = allocator
        self._hooks = []
        self._C = self._low()
        self.cuda = self._cuda()
        self.optimizers = types.SimpleNamespace(  # the module torch.optim.optimizer
            register_optimizer_step_post_hook=lambda hook: RemovableHandle(self._hooks, hook)
        )
        self.backends = types.SimpleNamespace(cudnn=self._cudnn())
        self.saving = []  # pairs of hooks that are in force
        graph = types.SimpleNamespace(saved_tensors_hooks=self._saved_tensors_hooks)
        self.autograd = types.SimpleNamespace(graph=graph)

    @contextlib.contextmanager
    def _saved_tensors_hooks(self, pack, unpack):
        self.saving.append((pack, unpack))
        yield
        self.saving.pop()

    def device(self, device):
        if not isinstance(device, str):
            return device
        kind, _, index = device.partition(":")
        return types.SimpleNamespace(type=kind, index=int(index) if index else None)

    def start_cuda(self, devices=1):
        self._initialized = True
        if self.installed is not None:
            self.call_hook("set_init_fn", ctypes.c_int(devices))

    def malloc(self, size, stream=0):
        """A tensor's memory, as PyTorch asks the allocator for it."""
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        return function(self.installed.alloc)(size, 0, stream)

    def free(self, address, size, stream=0):
        arguments = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        ctypes.CFUNCTYPE(None, *arguments)(self.installed.free)(address, size, 0, stream)

    def step(self, optimizer):
        """What Optimizer.step does at its end."""
        for hook in list(self._hooks):
            hook(optimizer, (), {})

    def call_hook(self, name, *args):
        ctypes.CFUNCTYPE(None)(self.installed.hooks[name])(*args)

    def _low(self):
        low = types.SimpleNamespace()
        for name in (
            "_cuda_memoryStats",
            "_cuda_resetPeakMemoryStats",
            "_cuda_resetAccumulatedMemoryStats",
            "_cuda_memorySnapshot",
            "_cuda_record_memory_history",
            "_cuda_getMemoryFraction",
        ):
            setattr(low, name, Refusal(name))
        low._cuda_emptyCache = lambda: self.call_hook("set_reset_fn")
        low._cuda_setMemoryFraction = lambda fraction, device: self.call_hook(
            "set_memory_fraction_fn", ctypes.c_double(fraction), ctypes.c_int(device)
        )
        low._accelerator_getDeviceStats = lambda device: {}
        low._accelerator_isAllocatorInitialized = lambda: False
        low._accelerator_emptyCache = lambda: None
        low._accelerator_resetPeakStats = lambda device: None
        low._accelerator_resetAccumulatedStats = lambda device: None
        low.benchmark = False
        low._get_cudnn_benchmark = lambda: low.benchmark
        low._set_cudnn_benchmark = lambda value: setattr(low, "benchmark", value)
        return low

    def _cuda(self):
        memory = types.SimpleNamespace(
            CUDAPluggableAllocator=self._pluggable,
            change_current_allocator=self._change,
            get_allocator_backend=lambda: "pluggable" if self.installed else "native",
            memory_stats=self._memory_stats,
            memory_snapshot=lambda: self._C._cuda_memorySnapshot((0, 0, True)),
        )
        return types.SimpleNamespace(
            memory=memory,
            memory_stats=self._memory_stats,
            memory_allocated=lambda device=0: self._stat(device, "allocated_bytes.all.current"),
            max_memory_allocated=lambda device=0: self._stat(device, "allocated_bytes.all.peak"),
            max_memory_reserved=lambda device=0: self._stat(device, "reserved_bytes.all.peak"),
            reset_peak_memory_stats=lambda device=0: self._C._cuda_resetPeakMemoryStats(device),
            is_initialized=lambda: self._initialized,
            is_current_stream_capturing=lambda: self.capturing,
            CUDAGraph=type("CUDAGraph", (), {"replay": lambda graph: "replayed"}),
            current_device=lambda: 0,
            current_stream=lambda device=0: types.SimpleNamespace(cuda_stream=0),
            device_count=lambda: 1,
        )

    def _cudnn(self):
        class CudnnModule:
            benchmark = BenchmarkProperty(
                self._C._get_cudnn_benchmark, self._C._set_cudnn_benchmark
            )

        return CudnnModule()

    def _pluggable(self, path, alloc, free):
        library = ctypes.CDLL(path)
        addresses = [ctypes.cast(getattr(library, n), ctypes.c_void_p).value for n in (alloc, free)]
        allocator = self._allocator(*addresses)
        return types.SimpleNamespace(allocator=lambda: allocator)

    def _change(self, plugged):
        if self.installed or self._initialized:
            raise RuntimeError("Can't swap an already initialized allocator")
        self.installed = plugged.allocator()

    def _memory_stats(self, device=0):
        if not self._initialized:
            return {}
        flat = {}

        def flatten(prefix, value):
            if isinstance(value, dict):
                for key, inner in value.items():
                    flatten(f"{prefix}.{key}" if prefix else key, inner)
            else:
                flat[prefix] = value

        flatten("", self._C._cuda_memoryStats(device))
        return OrderedDict(sorted(flat.items()))

    def _stat(self, device, key):
        return self._memory_stats(device).get(key, 0)
