"""``fit`` on a ``HeteroData`` equals plain PyG, and predicts the node type that is learnt."""

from __future__ import annotations

import copy

import pytest
import torch

import halowire
from halowire.errors import InputError
from halowire.pyg.hetero_fit import TypedTensors
from tests.support.hetero_case import COUNTS, build_hetero, make_hetero
from tests.support.pyg_case import assert_close

SPLITS = ("train", "val", "test")


def make_split():
    data = make_hetero()
    for place, name in enumerate(SPLITS):
        data["paper"][f"{name}_mask"] = torch.arange(COUNTS["paper"]) % 3 == place
    return data


def test_fit_equals_plain_pyg(tmp_path):
    data, model = make_split(), build_hetero("HeteroConv SAGE")
    settings = {"epochs": 3, "eval.every": 3, "optim.lr": 0.01}
    done = halowire.fit(model, data, workers=2, settings=settings, out=tmp_path / "run", quiet=True)
    plain, paper = copy.deepcopy(model), data["paper"]
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        out = plain(data.x_dict, data.edge_index_dict)
        torch.nn.functional.cross_entropy(out[paper.train_mask], paper.y[paper.train_mask]).backward()
        optimiser.step()
    with torch.no_grad():
        want = plain(data.x_dict, data.edge_index_dict)
    assert_close("predictions", done.predictions, want)
    right = (want.argmax(1) == paper.y)[paper.test_mask]
    assert done.summary["test"] == pytest.approx(float(right.float().mean()))
    halowire.predict(done, tmp_path / "classes.csv")
    lines = (tmp_path / "classes.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[1]) for line in lines] == done.predictions.argmax(1).tolist()


def test_exactly_one_type_is_learnt():
    data = make_split()
    data["author"].train_mask = torch.ones(COUNTS["author"], dtype=torch.bool)
    with pytest.raises(InputError, match="paper, author has a train_mask"):
        TypedTensors.of(data)


def test_what_the_learnt_type_lacks_is_named():
    data = make_split()
    del data["paper"].val_mask
    with pytest.raises(InputError, match="'paper' have no val_mask"):
        halowire.fit(build_hetero("by hand"), data, workers=1, quiet=True)


def test_links_between_types_are_refused():
    with pytest.raises(InputError, match="graphs of one type"):
        halowire.fit(build_hetero("by hand"), make_split(), workers=1, task="link", quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["sylvie-a", "halowire"])
def test_two_halves_are_a_whole(tmp_path, recipe):
    """Every edge type's rows under way, and its memory, are in the checkpoint."""
    data, model = make_split(), build_hetero("HeteroConv SAGE")

    def fit(name, epochs, **more):
        settings = {"epochs": epochs, "eval.every": 2, "optim.lr": 0.01, "threads": 1}
        return halowire.fit(model, data, 2, recipe, settings=settings, out=tmp_path / name, quiet=True, **more)

    whole = fit("whole", 6)
    fit("run", 4)
    done = fit("run", 6, resume=True)
    assert torch.equal(done.predictions, whole.predictions)
    assert done.summary["train_loss"] == whole.summary["train_loss"]
