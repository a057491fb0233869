"""What carries rows between GPUs, what the process group is told, and that NCCL's own watchdog comes last."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from halowire.errors import InputError
from halowire.launch import group as group_module
from halowire.launch.carrier import carrier_words, choose_carrier, device_and_carrier
from halowire.wire import NcclTransport, PinnedTransport, Transport, hold_watchdog, transport_on
from halowire.wire import circle as circle_module
from halowire.wire import transport_choice as choice_module

CPU, GPU = torch.device("cpu"), torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("setting", "device", "has_nccl", "carrier"),
    [
        ("auto", CPU, True, "gloo"), ("gloo", CPU, True, "gloo"), ("auto", GPU, True, "nccl"),
        ("auto", GPU, False, "gloo"), ("gloo", GPU, True, "gloo"), ("nccl", GPU, True, "nccl"),
    ],
)  # fmt: skip
def test_nccl_carries_rows_of_gpus_where_torch_has_it(monkeypatch, setting, device, has_nccl, carrier):
    monkeypatch.setattr(dist, "is_nccl_available", lambda: has_nccl)
    assert choose_carrier(setting, device) == carrier
    assert device_and_carrier(device, carrier) == ("cpu" if device == CPU else f"cuda with {carrier}")
    words = carrier_words(carrier, device)
    assert ("NCCL between GPUs" in words) == (carrier == "nccl")
    assert ("this torch has no NCCL" in words) == (device == GPU and not has_nccl)


@pytest.mark.parametrize(("device", "words"), [(CPU, "rows are on the CPU"), (GPU, "needs a torch with NCCL")])
def test_nccl_that_cannot_be_is_refused(monkeypatch, device, words):
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    with pytest.raises(InputError, match=words):
        choose_carrier("nccl", device)


@pytest.mark.parametrize(("gpu", "backend"), [(None, "gloo"), (GPU, "cpu:gloo,cuda:nccl")])
def test_the_process_group_knows_its_device(monkeypatch, gpu, backend):
    told = {}
    monkeypatch.setattr(dist, "init_process_group", lambda name, **more: told.update(more, backend=name))
    place = SimpleNamespace(rank=3, size=4)
    group_module._connect("a store", place, gpu, timedelta(seconds=60))
    assert told["backend"] == backend and told["device_id"] == gpu and told["rank"] == 3
    assert told["timeout"] == timedelta(seconds=60)


def test_the_watchdog_of_nccl_comes_after_the_deadline(monkeypatch):
    limits = []
    backend = SimpleNamespace(_set_default_timeout=limits.append)
    group = SimpleNamespace(_get_backend=lambda device: {GPU: backend}[device])
    monkeypatch.setattr(circle_module, "gpu_of", lambda world: GPU)
    hold_watchdog(group, 600.0)
    assert limits == [timedelta(seconds=1320)]


@pytest.mark.parametrize(
    ("device", "config", "kind"),
    [
        (CPU, "cpu:gloo,cuda:gloo", Transport),
        (torch.device("meta"), "cpu:gloo,cuda:gloo", Transport),
        (GPU, "cpu:gloo,cuda:gloo", PinnedTransport),
        (GPU, "cpu:gloo,cuda:nccl", NcclTransport),
    ],
)
def test_the_transport_follows_from_the_process_group(monkeypatch, device, config, kind):
    made = []
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_backend_config", lambda group: config)
    for name in ("Transport", "PinnedTransport", "NcclTransport"):
        monkeypatch.setattr(choice_module, name, lambda name=name, **more: made.append((name, more["run"])))
    transport_on(device, 60.0, 7)
    assert made == [(kind.__name__, 7)]


def test_a_process_group_for_gpus_alone_is_refused(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_backend_config", lambda group: "cuda:nccl")
    with pytest.raises(InputError, match="init_process_group"):
        transport_on(GPU)
