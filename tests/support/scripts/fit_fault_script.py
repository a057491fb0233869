"""A plain script that a test runs: ``fit_fault_script.py KIND FOLDER``: a worker dies, or a weight goes bad."""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch_geometric.data import Data

import halowire
from halowire.errors import TrainingError

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
EPOCHS = 8


class Net(torch.nn.Module):
    """Two layers with dropout between them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.SAGEConv(6, 8), pyg.SAGEConv(8, 3)
        self.passes = 0

    def forward(self, x, edge_index):
        self.passes += self.training
        if KIND == "nan" and self.passes == 6 and rank() == 1:
            self.second.lin_l.weight.data[0, 0] = float("nan")
        return self.second(F.dropout(self.first(x, edge_index).relu(), 0.4, self.training), edge_index)


def rank():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def loss(out, part):
    mark = FOLDER / "killed"
    checkpoints = FOLDER / "again" / "checkpoints"
    if KIND == "killed" and rank() == 1 and (checkpoints / "epoch-000004").exists() and not mark.exists():
        mark.write_text("once")
        os.kill(os.getpid(), signal.SIGKILL)
    return F.cross_entropy(out[part.train_mask], part.y[part.train_mask], reduction="none")


graph = halowire.block_model(150, 900, 6, 3, seed=2)
masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
data = Data(x=graph.x, edge_index=graph.edge_index(), y=graph.y, **masks)
torch.manual_seed(0)
net = Net()


def fit(name, **more):
    settings = {"epochs": EPOCHS, "eval.every": 4, "checkpoint.every": 2, "optim.lr": 0.02, "threads": 1}
    return halowire.fit(net, data, 2, "sylvie-a", loss=loss, settings=settings, out=FOLDER / name, quiet=True, **more)


if KIND == "nan":
    try:
        fit("run")
    except TrainingError as error:
        print(error)
else:
    whole = fit("whole")
    again = fit("again", max_restarts=2)
    pairs = zip(whole.model.state_dict().values(), again.model.state_dict().values(), strict=True)
    same = {
        "killed": (FOLDER / "killed").exists(),
        "predictions": torch.equal(whole.predictions, again.predictions),
        "loss": whole.summary["train_loss"] == again.summary["train_loss"],
        "weights": all(torch.equal(one, other) for one, other in pairs),
    }
    print(json.dumps(same))
