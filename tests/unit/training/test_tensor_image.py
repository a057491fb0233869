"""The bytes of an image are a safetensors file, whatever the tensors, and its memory serves again."""

from __future__ import annotations

import torch
from safetensors.torch import load

from halowire.files import BLOCK
from halowire.training.tensor_image import DTYPES, TensorImage


def tensors_of(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = {str(dtype): torch.randint(0, 2, (seed, 3), generator=generator).to(dtype) for dtype in DTYPES}
    whole = torch.rand(6, 4, generator=generator)
    return found | {"none": torch.empty(0, 5), "number": torch.tensor(3.5), "turned": whole.T, "part": whole[1:3, ::2]}


def test_safetensors_reads_what_was_copied():
    image = TensorImage()
    for seed in (7, 3, 9):  # a smaller file after a larger one, and a larger one again
        want = tensors_of(seed)
        data = image.take(want)
        assert torch.frombuffer(data, dtype=torch.uint8).data_ptr() % BLOCK == 0, "a disk takes whole blocks from it"
        got = load(bytes(data))
        assert got.keys() == want.keys()
        for name, value in want.items():
            assert got[name].dtype == value.dtype and torch.equal(got[name], value), name


def test_an_image_is_a_copy():
    values, image = torch.zeros(5), TensorImage()
    data = image.take({"a": values})
    values.fill_(1)
    assert torch.equal(load(bytes(data))["a"], torch.zeros(5)) and load(bytes(image.take({}))) == {}
