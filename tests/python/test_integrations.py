"""The callbacks, called in the order in which the frameworks call them."""

import sys
import types

import pytest
import stalloc


@pytest.fixture
def steps(monkeypatch):
    """Where in the test's own list of events a step was marked."""
    events = []
    monkeypatch.setattr(stalloc, "step", lambda: events.append("step"))
    return events


def framework(monkeypatch, name, base):
    """A module `name` with an empty class `base`, as the integration imports it."""
    parent = ""
    for part in name.split("."):
        full = f"{parent}.{part}" if parent else part
        monkeypatch.setitem(sys.modules, full, types.ModuleType(full))
        parent = full
    setattr(sys.modules[name], base, type(base, (), {}))
    integration = f"stalloc.integrations.{name.split('.')[0]}"
    monkeypatch.delitem(sys.modules, integration, raising=False)


def test_transformers(steps, monkeypatch):
    framework(monkeypatch, "transformers", "TrainerCallback")
    from stalloc.integrations.transformers import StallocCallback

    callback = StallocCallback()
    state = types.SimpleNamespace(global_step=0)
    callback.on_evaluate(None, state, None)  # before the training
    for state.global_step in (1, 2):
        steps.append("optimizer")
        callback.on_step_end(None, state, None)
    callback.on_evaluate(None, state, None, metrics={})
    assert steps == ["optimizer", "step", "optimizer", "step", "step"]


@pytest.fixture
def enabled(monkeypatch):
    monkeypatch.setattr(stalloc, "is_enabled", lambda: True)
    monkeypatch.setattr(stalloc, "stats", lambda: stalloc.Stats(peak_reserved=8, peak_allocated=6))


def test_transformers_logs_memory(enabled, monkeypatch):
    framework(monkeypatch, "transformers", "TrainerCallback")
    from stalloc.integrations.transformers import log_memory

    reporter = object()
    trainer = types.SimpleNamespace(callback_handler=types.SimpleNamespace(callbacks=[reporter]))
    log_memory(trainer)
    ours, last = trainer.callback_handler.callbacks
    logs = {"loss": 1.0}
    ours.on_log(None, None, None, logs=logs)
    assert last is reporter and logs["loss"] == 1 and logs["stalloc/peak_reserved"] == 8
    assert logs["stalloc/fragmentation"] == 0.25


def test_lightning_logs_memory(steps, enabled, monkeypatch):
    framework(monkeypatch, "lightning.pytorch", "Callback")
    from stalloc.integrations.lightning import StallocCallback

    logged = {}
    module = types.SimpleNamespace(log_dict=logged.update)
    trainer = types.SimpleNamespace(global_step=1, loggers=[])
    StallocCallback().on_train_batch_end(trainer, module, None, None, 0)
    assert logged == {}
    trainer.loggers = ["one"]
    StallocCallback().on_train_batch_end(trainer, module, None, None, 0)
    assert logged["stalloc/peak_allocated"] == 6


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(steps, monkeypatch, package):
    framework(monkeypatch, package, "Callback")
    monkeypatch.delitem(sys.modules, "stalloc.integrations.lightning", raising=False)
    if package == "pytorch_lightning":
        monkeypatch.setitem(sys.modules, "lightning", None)
    from stalloc.integrations.lightning import StallocCallback

    callback = StallocCallback()
    trainer = types.SimpleNamespace(global_step=4, sanity_checking=True)
    callback.on_validation_end(trainer, None)
    trainer.sanity_checking = False
    callback.on_train_start(trainer, None)
    for batch in range(4):
        if batch % 2:  # two batches are accumulated
            steps.append("optimizer")
            trainer.global_step += 1
        callback.on_train_batch_end(trainer, None, None, None, batch)
    callback.on_validation_end(trainer, None)
    assert steps == ["optimizer", "step", "optimizer", "step", "step"]


@pytest.mark.parametrize("name", ["transformers", "lightning"])
def test_offload(monkeypatch, name):
    """One argument, and the optimizers' states are offloaded when the training begins."""
    offloaded = []
    monkeypatch.setattr(stalloc, "offload", offloaded.append)
    if name == "transformers":
        framework(monkeypatch, "transformers", "TrainerCallback")
        from stalloc.integrations.transformers import StallocCallback

        for callback in (StallocCallback(offload=True), StallocCallback()):
            callback.on_train_begin(None, None, None, optimizer="one", model=None)
        assert offloaded == ["one"]
    else:
        framework(monkeypatch, "lightning.pytorch", "Callback")
        from stalloc.integrations.lightning import StallocCallback

        trainer = types.SimpleNamespace(global_step=0, optimizers=["one", "two"])
        for callback in (StallocCallback(offload=True), StallocCallback()):
            callback.on_train_start(trainer, None)
        assert offloaded == ["one", "two"]


class AcceleratedOptimizer:
    """As accelerate's: while gradients are accumulated it does nothing."""

    def __init__(self, events):
        self.events = events
        self.gradient_state = types.SimpleNamespace(sync_gradients=True)

    def step(self, closure=None):
        if self.gradient_state.sync_gradients:
            self.events.append("optimizer")

    def zero_grad(self, set_to_none=None):
        if self.gradient_state.sync_gradients:
            self.events.append("zero")


@pytest.mark.parametrize("zero_first", [False, True])
def test_accelerate(steps, zero_first):
    from stalloc.integrations.accelerate import mark_steps

    optimizer = AcceleratedOptimizer(steps)
    mark_steps(optimizer)
    for _ in range(2):
        if zero_first:
            optimizer.zero_grad()
        optimizer.step()
        if not zero_first:
            optimizer.zero_grad(set_to_none=True)
    once = ["zero", "optimizer"] if zero_first else ["optimizer", "zero", "step"]
    assert steps == ([*once, "zero", "step", "optimizer"] if zero_first else once * 2)


def test_accelerate_while_gradients_are_accumulated(steps):
    from stalloc.integrations.accelerate import mark_steps

    optimizer = AcceleratedOptimizer(steps)
    mark_steps(optimizer)
    for batch in range(4):
        optimizer.gradient_state.sync_gradients = batch % 2 == 1
        optimizer.step()
        optimizer.zero_grad()
    assert steps == ["optimizer", "zero", "step"] * 2
