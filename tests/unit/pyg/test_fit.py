"""``halowire.fit``: from a plain script, with classes of its own, the result of the same loop in plain PyG."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch_geometric.nn as pyg

import halowire
from halowire.errors import InputError
from tests.support.fit_case import SCRIPTS, make_data, run_script

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_script_with_classes_of_its_own(tmp_path):
    facts = json.loads(run_script(SCRIPTS / "fit_script.py", tmp_path / "run").splitlines()[-1])
    assert facts["loss"][1] == pytest.approx(facts["loss"][0], rel=1e-4)
    assert facts["trained"] < 1e-3, "six steps of Adam apart by rounding only"
    assert facts["predicted"] < 1e-3
    assert facts["test"][1] == pytest.approx(facts["test"][0], abs=0.02)
    assert facts["model"] == "Net"
    assert facts["report"]


@pytest.mark.slow
def test_a_loop_of_at_most_25_lines():
    script = EXAMPLES / "own_loop.py"
    lines = [line for line in script.read_text().splitlines() if line.strip()]
    assert len(lines) <= 25
    out = run_script("-m", "torch.distributed.run", "--nproc-per-node", "2", script)
    assert float(out.split()[-1]) > 0.6, out


def test_one_worker_repeats_exactly(tmp_path):
    def once(name: str) -> torch.Tensor:
        torch.manual_seed(1)
        model = pyg.models.GraphSAGE(5, 8, 2, 3, dropout=0.3)
        torch.manual_seed(hash(name) % 1000)
        fit = halowire.fit(model, make_data(), settings={"epochs": 3, "seed": 4}, out=tmp_path / name, quiet=True)
        return fit.predictions

    assert torch.equal(once("first"), once("second"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"model.hidden": 4}}, "no effect"),
        ({"inputs": ("x", "edge_index", "edge_attr")}, "has no edge_attr"),
        ({"workers": 0}, "at least one"),
        ({"recipe": "isolated"}, "another recipe"),
        ({"recipe": "gnnpipe"}, "splits the layers"),
        ({"loss": lambda out, part: out.mean()}, "one value per row"),
    ],
)
def test_mistakes_are_told(tmp_path, change, words):
    model = pyg.models.GraphSAGE(5, 8, 2, 3)
    given = {"settings": {"epochs": 1}, "out": tmp_path / "run", "quiet": True} | change
    with pytest.raises(InputError, match=words):
        halowire.fit(model, make_data(), **given)


def test_a_lazy_model_is_called_before(tmp_path):
    model, data = pyg.models.GraphSAGE(-1, 8, 2, 3), make_data()
    with pytest.raises(InputError, match="call it once on a plain graph first"):
        halowire.fit(model, data, settings={"epochs": 1}, out=tmp_path / "run", quiet=True)
    model(data.x, data.edge_index)
    done = halowire.fit(model, data, settings={"epochs": 1}, out=tmp_path / "run", quiet=True)
    assert done.predictions.shape == (data.num_nodes, 3)


def test_a_tensor_that_forward_can_do_without_is_asked_for(tmp_path):
    """With weights in the graph and ``edge_weight=None`` in forward, either could be meant."""
    data, settings = make_data(), {"epochs": 1}
    data.edge_weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(1)
    model = pyg.models.GCN(5, 8, 2, 3)
    with pytest.raises(InputError, match=r"inputs=\('x', 'edge_index', 'edge_weight'\), or inputs="):
        halowire.fit(model, data, settings=settings, out=tmp_path / "run", quiet=True)
    for inputs in (("x", "edge_index"), ("x", "edge_index", "edge_weight")):
        done = halowire.fit(model, data, inputs=inputs, settings=settings, out=tmp_path / str(len(inputs)), quiet=True)
        with torch.no_grad():
            want = done.model(*(data[name] for name in inputs))
        assert torch.allclose(done.predictions, want, atol=1e-5)


def test_an_input_that_skips_a_parameter_goes_by_name(tmp_path):
    """``forward(x, edge_index, edge_weight=None, edge_attr=None)``: features are not taken for weights."""
    data = make_data()
    data.edge_attr = torch.rand(data.num_edges, 2, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(1)
    model, inputs = pyg.models.GAT(5, 8, 2, 3, edge_dim=2), ("x", "edge_index", "edge_attr")
    done = halowire.fit(model, data, inputs=inputs, settings={"epochs": 1}, out=tmp_path / "run", quiet=True)
    with torch.no_grad():
        want = done.model(data.x, data.edge_index, edge_attr=data.edge_attr)
    assert torch.allclose(done.predictions, want, atol=1e-5)


def test_a_model_that_is_wrong_on_a_shard_is_refused(tmp_path):
    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(5, 3)

        def forward(self, x, edge_index):
            h = self.conv(x, edge_index)
            return h - h.max(0).values

    with pytest.raises(InputError, match="does not equal"):
        halowire.fit(Pooled(), make_data(), settings={"epochs": 1}, out=tmp_path / "run", quiet=True)
