"""Every model of ``torch_geometric.nn.models`` by name: which are equal on many workers, or refused."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.nn import models

from tests.support.layer_shapes import Called, One, signed
from tests.support.list_case import ATTR, PLAIN, TYPE, WEIGHT, Case, absent, elsewhere, refused
from tests.support.pyg_case import CLASSES, FEATURES
from tests.support.pyg_layers import BATCHES, HETERO
from tests.support.pyg_models import HIDDEN, zoo

PAIRS = "tests/unit/pyg/test_pairs.py::test_autoencoders_learn_as_in_plain_pyg"
ADVERSARY = "tests/unit/pyg/test_pairs.py::test_adversarial_autoencoders_learn_as_in_plain_pyg"
REVERSED = "tests/parity/test_precision.py::test_three_steps_equal_plain_pyg"
MOLECULES = "takes whole molecules and gives a value for each"


class EdgeStep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2 * HIDDEN + 3, 5)

    def forward(self, source: Tensor, target: Tensor, edge_attr: Tensor, u: Any, batch: Any) -> Tensor:
        return self.lin(torch.cat([source, target, edge_attr], 1)).relu()


class NodeStep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(HIDDEN + 5, HIDDEN)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, u: Any, batch: Any) -> Tensor:
        sums = x.new_zeros(len(x), 5).index_add_(0, edge_index[1], edge_attr)
        return self.lin(torch.cat([x, sums], 1))


def meta() -> nn.Module:
    layer = models.MetaLayer(EdgeStep(), NodeStep())
    return Called(layer, lambda layer, h, x, edge_index, edge_attr: layer(h, edge_index, edge_attr)[0])


def masked_labels() -> nn.Module:
    def call(layer: nn.Module, h: Tensor, x: Tensor, edge_index: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        return layer[1](layer[0](h, y, mask), edge_index)

    return Called(nn.ModuleList([models.MaskLabel(2, HIDDEN), pyg.SAGEConv(HIDDEN, HIDDEN)]), call)


def deep_layer(block: str) -> nn.Module:
    layer = models.DeepGCNLayer(pyg.SAGEConv(HIDDEN, HIDDEN), pyg.LayerNorm(HIDDEN), nn.ReLU(), block)
    return One(layer, 2 * HIDDEN if block == "dense" else HIDDEN)


class Encoded(nn.Module):
    """Encodings of the nodes that ``GPSENodeEncoder`` appends to their features, then a layer; its dropout is off."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.encode = models.GPSENodeEncoder(FEATURES + 4, FEATURES, 4, dropout_be=0.0, dropout_ae=0.0, **options)
        self.conv = pyg.SAGEConv(FEATURES + 4, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.encode(x, x.tanh()), edge_index)


def jumping(mode: str) -> nn.Module:
    def call(layer: nn.Module, h: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return layer[1]([h, layer[0](h, edge_index)])

    jump = models.JumpingKnowledge(mode, HIDDEN, 2)
    return Called(nn.ModuleList([pyg.SAGEConv(HIDDEN, HIDDEN), jump]), call, 2 * HIDDEN if mode == "cat" else HIDDEN)


class Propagated(nn.Module):
    """Label propagation after a layer: ``LabelPropagation`` itself has no weights."""

    def __init__(self, smooth: bool, autoscale: bool = False) -> None:
        super().__init__()
        self.lin = nn.Linear(FEATURES, 2)
        self.smooth = smooth
        self.prop = models.CorrectAndSmooth(2, 0.8, 2, 0.7, autoscale) if smooth else models.LabelPropagation(3, 0.9)

    def forward(self, x: Tensor, edge_index: Tensor, y: Tensor, train_mask: Tensor) -> Tensor:
        out = self.lin(x)
        if not self.smooth:
            return out + self.prop(y, edge_index, train_mask)
        soft = self.prop.correct(out.softmax(-1), y[train_mask], train_mask, edge_index)
        return out + self.prop.smooth(soft, y[train_mask], train_mask, edge_index)


def signed_gcn() -> nn.Module:
    return signed(models.SignedGCN(HIDDEN, HIDDEN, 2), HIDDEN)


def infomax() -> nn.Module:
    summary, shuffle = (lambda z, *_: z.mean(0).sigmoid()), (lambda x, edge_index: (x.flip(0), edge_index))
    return models.DeepGraphInfomax(CLASSES, pyg.SAGEConv(FEATURES, CLASSES), summary, shuffle)


MODELS: dict[str, Case] = {
    "ARGA": elsewhere(ADVERSARY),
    "ARGVA": elsewhere(ADVERSARY),
    "ARLinkPredictor": elsewhere("tests/parity/test_link_examples.py::test_three_steps_equal_plain_pyg"),
    "AttentiveFP": refused(
        lambda: Called(
            models.AttentiveFP(HIDDEN, HIDDEN, HIDDEN, 3, 2, 2),
            lambda layer, h, x, edge_index, edge_attr: layer(h, edge_index, edge_attr, torch.zeros(len(x)).long()),
        ),
        "pool and reduce outside of it",
        ATTR,
    ),
    "CorrectAndSmooth": Case(lambda: Propagated(True), (*PLAIN, "y", "train_mask")),
    "CorrectAndSmooth autoscale": refused(
        lambda: Propagated(True, True), "use autoscale=False and a scale of your own", (*PLAIN, "y", "train_mask")
    ),
    "DeepGCNLayer": Case(lambda: deep_layer("res+")),
    "DeepGCNLayer dense": Case(lambda: deep_layer("dense")),
    "DeepGraphInfomax": refused(infomax, "distribute its encoder, and take the summary of all rows"),
    "DimeNet": absent(MOLECULES),
    "DimeNetPlusPlus": absent(MOLECULES),
    "EdgeCNN": Case(lambda: zoo("EdgeCNN")),
    "GAE": elsewhere(PAIRS),
    "GAT": Case(lambda: zoo("GAT", jk="lstm", heads=2)),
    "GAT v2": Case(lambda: zoo("GAT", v2=True, heads=2)),
    "GCN": Case(lambda: zoo("GCN", jk="cat", norm="batch_norm")),
    "GIN": Case(lambda: zoo("GIN", norm="layer_norm", jk="cat")),
    "GNNFF": absent(MOLECULES),
    "GPSE": absent("pools the graph, and is trained on many graphs"),
    "GPSENodeEncoder": Case(Encoded),
    "GPSENodeEncoder linear": Case(lambda: Encoded(model_type="linear", expand_x=True, dim_in=FEATURES)),
    "GraphSAGE": Case(lambda: zoo("GraphSAGE", jk="max")),
    "GraphUNet": refused(
        lambda: models.GraphUNet(FEATURES, HIDDEN, CLASSES, 2), "leave it out, or train on one worker"
    ),
    "GroupAddRev": elsewhere(REVERSED),
    "HeteroJumpingKnowledge": elsewhere(HETERO),
    "HeteroJumpingKnowledge lstm": elsewhere(HETERO),
    "HeteroJumpingKnowledge max": elsewhere(HETERO),
    "InnerProductDecoder": elsewhere(PAIRS),
    "JumpingKnowledge": Case(lambda: jumping("cat")),
    "JumpingKnowledge lstm": Case(lambda: jumping("lstm")),
    "JumpingKnowledge max": Case(lambda: jumping("max")),
    "LINKX": elsewhere("tests/parity/test_node_weights.py::test_three_steps_equal_plain_pyg_row_by_row"),
    "LPFormer": absent("takes a matrix of all pairs of nodes"),
    "LabelPropagation": Case(lambda: Propagated(False), (*PLAIN, "y", "train_mask")),
    "LightGCN": elsewhere("tests/parity/test_lightgcn.py::test_three_steps_equal_plain_pyg"),
    "MLP": Case(lambda: models.MLP([FEATURES, HIDDEN, CLASSES]), ("x",)),
    "MLP layer norm": Case(lambda: models.MLP([FEATURES, HIDDEN, CLASSES], norm="layer_norm"), ("x",)),
    "MaskLabel": Case(masked_labels, (*PLAIN, "y", "train_mask")),
    "MetaLayer": Case(meta, ATTR),
    "MetaPath2Vec": absent("samples walks of its own graph"),
    "NeuralFingerprint": refused(
        lambda: models.NeuralFingerprint(FEATURES, HIDDEN, CLASSES, 2), "pool and reduce outside of it"
    ),
    "Node2Vec": absent(
        "PyG makes it with pyg-lib only; it samples walks and is refused: use a model of (x, edge_index)"
    ),
    "PMLP": Case(lambda: models.PMLP(FEATURES, HIDDEN, CLASSES, 2)),
    "PNA": Case(lambda: zoo("PNA", jk="max")),
    "Polynormer": elsewhere(BATCHES),
    "RECT_L": Case(lambda: One(models.RECT_L(HIDDEN, HIDDEN)), WEIGHT),
    "RENet": absent("takes sequences of events, no graph"),
    "SGFormer": elsewhere(BATCHES),
    "SchNet": absent(MOLECULES),
    "SignedGCN": Case(signed_gcn, TYPE),
    "TGNMemory": absent("keeps a memory of events in time"),
    "VGAE": elsewhere(PAIRS),
    "ViSNet": absent(MOLECULES),
    "captum_output_to_dicts": absent("is a function"),
    "to_captum_input": absent("is a function"),
    "to_captum_model": absent("is a function"),
}
