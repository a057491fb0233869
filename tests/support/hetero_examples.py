"""The models of PyG's ``examples/hetero``, for the graph of `make_hetero`; their widths are found by a first call."""

from __future__ import annotations

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from tests.support.hetero_case import CLASSES, COUNTS, HIDDEN, LINKS

METADATA = list(COUNTS), list(LINKS)


class HeteroConvDblp(nn.Module):
    """``hetero_conv_dblp.py``: lazy SAGE layers by edge type, leaky rectifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            pyg.HeteroConv({kind: pyg.SAGEConv((-1, -1), HIDDEN) for kind in LINKS}) for _ in range(2)
        )
        self.lin = pyg.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[object, Tensor]) -> Tensor:
        for conv in self.convs:
            x_dict = {name: nn.functional.leaky_relu(x) for name, x in conv(x_dict, edge_index_dict).items()}
        return self.lin(x_dict["paper"])


class HgtDblp(nn.Module):
    """``hgt_dblp.py``: lazy maps by node type, rectified in place, then HGT layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lin_dict = nn.ModuleDict({name: pyg.Linear(-1, HIDDEN) for name in COUNTS})
        self.convs = nn.ModuleList(pyg.HGTConv(HIDDEN, HIDDEN, METADATA, heads=2) for _ in range(2))
        self.lin = pyg.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[object, Tensor]) -> Tensor:
        x_dict = {name: self.lin_dict[name](x).relu_() for name, x in x_dict.items()}
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
        return self.lin(x_dict["paper"])


class HanImdb(nn.Module):
    """``han_imdb.py``: one HAN layer; its dropout is left out, as every worker draws its own."""

    def __init__(self) -> None:
        super().__init__()
        self.han_conv = pyg.HANConv(dict.fromkeys(COUNTS, -1), HIDDEN, heads=4, metadata=METADATA)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[object, Tensor]) -> Tensor:
        return self.lin(self.han_conv(x_dict, edge_index_dict)["paper"])


class SageMag(nn.Module):
    """The layers of ``to_hetero_mag.py`` as a class: `to_hetero` of PyG's own `Sequential` fails in plain PyG."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.SAGEConv((-1, -1), HIDDEN), pyg.SAGEConv((-1, -1), HIDDEN)
        self.relu = nn.ReLU(inplace=True)
        self.lin = pyg.Linear(-1, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.relu(self.conv1(x, edge_index))
        return self.lin(self.relu(self.conv2(x, edge_index)))


EXAMPLES = {
    "hetero_conv_dblp.py": HeteroConvDblp,
    "hgt_dblp.py": HgtDblp,
    "han_imdb.py": HanImdb,
    "to_hetero_mag.py": lambda: pyg.to_hetero(SageMag(), METADATA),
}


def build_example(name: str, data: HeteroData) -> nn.Module:
    """The model with the same weights wherever it is built; a first call on the whole graph gives it its widths."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = EXAMPLES[name]()
        with torch.no_grad():
            model(data.x_dict, data.edge_index_dict)
    return model
