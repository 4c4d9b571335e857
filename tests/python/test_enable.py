"""enable(): what it installs, and what it says when it cannot."""

import ctypes
import os
import sys

import faketorch
import pytest
import stalloc
from stalloc import StallocError, StallocWarning, _library, _torch


def test_installs_allocator_and_hooks(process, stub):
    torch = process()
    assert stalloc.enable() is True
    assert stalloc.is_enabled()
    library = _library.Library(stub.path)
    assert torch.installed.alloc == library.address("stalloc_malloc")
    assert torch.installed.free == library.address("stalloc_free")
    expected = {setter: library.address(name) for setter, name in _library.HOOKS.items()}
    assert torch.installed.hooks == expected
    assert set(expected) == set(faketorch.SETTERS)


def test_hooks_reach_the_library(process, stub):
    torch = process()
    stalloc.enable()
    torch.start_cuda()
    torch._C._cuda_emptyCache()
    torch._C._cuda_setMemoryFraction(0.5, 0)
    assert stub.calls == ["init", "reset", "half"]


def test_out_of_memory_reaches_pytorch_s_thrower(process, c10):
    torch = process()
    stalloc.enable()
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    assert alloc(torch.installed.alloc)(1 << 41, 0, None) is None
    library = ctypes.CDLL(str(c10 / "lib" / "libc10.so"))
    library.stub_message.restype = ctypes.c_char_p
    assert b"CUDA out of memory" in library.stub_message()


def test_settings_are_merged_and_handed_to_c(process, stub, monkeypatch):
    process()
    monkeypatch.setenv("STALLOC_CONF", "a:1,b:2")
    stalloc.enable(b=3)
    assert stub.conf == "a:1,b:3"


def test_unknown_setting_leaves_everything_as_it_was(process):
    torch = process()
    with pytest.raises(StallocError, match='cannot start: STALLOC_CONF: unknown key "unknown_key"'):
        stalloc.enable(unknown_key=1)
    assert not stalloc.is_enabled() and torch.installed is None
    assert "STALLOC_CONF" not in os.environ
    assert stalloc.enable() is True


def test_failure_restores_the_environment(process, monkeypatch):
    process()
    monkeypatch.setenv("STALLOC_CONF", "a:1")
    with pytest.raises(StallocError):
        stalloc.enable(unknown_key=1)
    assert os.environ["STALLOC_CONF"] == "a:1"


def test_twice_is_once(process, recwarn):
    torch = process()
    stalloc.enable(a=1)
    installed = torch.installed
    assert stalloc.enable(a=1) is True
    assert stalloc.enable() is True  # the settings are in the environment by now
    assert torch.installed is installed and not recwarn.list


def test_twice_with_other_settings_warns(process):
    process()
    stalloc.enable(a=1)
    with pytest.warns(StallocWarning, match="already enabled with the settings a:1; a:2 is ignore"):
        assert stalloc.enable(a=2) is True


def test_after_cuda_started(process):
    torch = process()
    torch.start_cuda()
    with pytest.raises(StallocError, match="CUDA has already been started.*call stalloc.enable"):
        stalloc.enable()
    assert torch.installed is None


def test_after_another_pluggable_allocator(process):
    process().installed = object()
    with pytest.raises(StallocError, match="another CUDAPluggableAllocator.*remove"):
        stalloc.enable()


def test_pytorch_refuses(process):
    torch = process()

    def refuse(plugged):
        raise RuntimeError("no, thank you")

    torch.cuda.memory.change_current_allocator = refuse
    with pytest.raises(StallocError, match="2.11.0 refused the allocator: no, thank you"):
        stalloc.enable()


def test_pytorch_without_the_hooks(process):
    process(version="2.1.0", allocator=faketorch.Allocator)
    with pytest.raises(StallocError, match="PyTorch 2.1.0 has no set_init_fn.*2.3 or newer"):
        stalloc.enable()


def test_pytorch_before_pluggable_allocators(process):
    del process(version="1.13.1").cuda.memory.CUDAPluggableAllocator
    with pytest.raises(StallocError, match="PyTorch 1.13.1 has no .*CUDAPluggableAll.*upgrade"):
        stalloc.enable()


def test_pytorch_without_the_thrower(process, tmp_path):
    torch = process()
    torch.__file__ = str(tmp_path / "__init__.py")
    with pytest.raises(StallocError, match="torchCheckFail.*report this version"):
        stalloc.enable()
    assert torch.installed is None


def test_no_pytorch(process, monkeypatch):
    process()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(StallocError, match="PyTorch cannot be imported.*install it"):
        stalloc.enable()


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"cuda": None}, "is built without CUDA"),
        ({"cuda": None, "hip": "6.0"}, "is built for ROCm"),
        ({}, "no NVIDIA driver"),
    ],
)
def test_no_gpu_is_no_error(process, monkeypatch, options, reason):
    torch = process(**options)
    monkeypatch.setattr(_torch, "_DRIVER", "libabsent.so.1")
    with pytest.warns(StallocWarning, match=f"{reason}.*goes on without it"):
        assert stalloc.enable(anything=1) is False
    assert stalloc.enable() is False  # says it once
    assert torch.installed is None and not stalloc.is_enabled()
    stalloc.step()
    assert stalloc.stats() == stalloc.Stats()
    assert reason in stalloc.explain()


def test_driver_named_by_the_settings(process, monkeypatch):
    process()
    monkeypatch.setattr(_torch, "_DRIVER", "libabsent.so.1")
    with pytest.warns(StallocWarning, match="libother.so"):
        assert stalloc.enable(driver="libother.so") is False
    assert stalloc.enable(driver="libc.so.6") is True


def test_before_enable_everything_answers(process):
    process()
    stalloc.step()
    assert stalloc.stats() == stalloc.Stats()
    assert stalloc.explain() == (
        "stalloc is not enabled: nothing has called stalloc.enable() in this process."
    )


def test_strict_asks_for_stalloc_or_nothing(process, monkeypatch):
    process(cuda=None)
    with pytest.raises(StallocError, match="built without CUDA; strict asks"):
        stalloc.enable(strict=True)
    monkeypatch.setenv("STALLOC", "strict")
    with pytest.raises(StallocError, match="built without CUDA; strict asks"):
        stalloc.enable()


def test_named_settings(process, stub):
    process()
    stalloc.enable(limit="90%", plan=False, log="info", window=None)
    assert stub.conf == "plan:off,limit:90%,log:info"


def test_wrong_setting_is_an_error_of_its_own(process, monkeypatch):
    process()
    with pytest.raises(stalloc.SettingError, match="unknown key"):
        stalloc.enable(unknown_key=1)
    monkeypatch.setenv("STALLOC_CONF", "a:1,unknown_key")  # its form is the library's to judge
    with pytest.raises(stalloc.SettingError, match="unknown key"):
        stalloc.enable()


def test_settings_are_checked_where_there_is_no_gpu(process, monkeypatch):
    process()
    monkeypatch.setattr(_torch, "_DRIVER", "libabsent.so.1")
    with pytest.raises(stalloc.SettingError, match="unknown key"):
        stalloc.enable(unknown_key=1)
    monkeypatch.setattr(_library, "shim_path", lambda: "/absent/libstalloc.so")
    with pytest.warns(StallocWarning, match="no NVIDIA driver"):  # nor is a library needed
        assert stalloc.enable(unknown_key=1) is False


def fall_back(torch, stub):
    torch.start_cuda()
    stub.set_text("The engine is away.")
    stub.set(fallback=7)


def test_fallback_is_warned_of_once(process, stub, recwarn):
    torch = process()
    stalloc.enable()
    fall_back(torch, stub)
    for _ in range(3):
        stalloc.step()
        stalloc.stats()
    (warning,) = recwarn.list
    assert warning.category is StallocWarning
    words = "plain driver allocations served 7 requests on cuda:0: The engine is away."
    assert words in str(warning.message)


def test_fallback_is_seen_behind_later_steps(process, stub):
    torch = process()
    stalloc.enable()
    for _ in range(40):
        stalloc.step()
    fall_back(torch, stub)
    with pytest.warns(StallocWarning, match="served 7 requests"):
        for _ in range(64):
            stalloc.step()


def test_fallback_ends_a_strict_run(process, stub):
    torch = process()
    stalloc.enable(strict=True)
    fall_back(torch, stub)
    assert stalloc.stats().fallback == 7  # asking for it is no error
    with pytest.raises(StallocError, match="served 7 requests"):
        torch.step(object_with_identity := type("Optimizer", (), {})())
        torch.step(object_with_identity)


def test_benchmark_mode_of_cudnn_stays_off(process):
    torch = process()
    torch.backends.cudnn.benchmark = True
    with pytest.warns(StallocWarning, match="benchmark stays off"):
        stalloc.enable()
    assert torch.backends.cudnn.benchmark is False
    with pytest.warns(StallocWarning, match="benchmark stays off"):
        torch.backends.cudnn.benchmark = True
    with pytest.warns(StallocWarning, match="benchmark stays off"):
        torch._C._set_cudnn_benchmark(True)
    torch.backends.cudnn.benchmark = False
    assert torch.backends.cudnn.benchmark is False


def test_devices(process, stub):
    torch = process()
    stalloc.enable()
    stub.set(requests=7)
    for device in (None, 0, "cuda", "cuda:1", torch.device("cuda:1")):
        assert stalloc.stats(device).requests == 7
    with pytest.raises(StallocError, match="device 9"):
        stalloc.stats("cuda:9")
    with pytest.raises(ValueError, match="not a CUDA device"):
        stalloc.stats("cpu")
