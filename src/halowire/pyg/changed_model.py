"""What a script changes in a model after it was distributed: the copy that is rehearsed follows, or it is refused."""

from __future__ import annotations

from torch import Tensor, nn

from halowire.errors import InputError


def follow(pristine: nn.Module, model: nn.Module) -> None:
    """Give ``pristine`` the types of ``model``, which ``model.double()`` changes; refuse weights that were added."""
    copies, weights = dict(pristine.named_parameters()), dict(model.named_parameters())
    added = [name for name in weights if name not in copies]
    if added or len(copies) != len(weights):
        raise InputError(
            f"the model has other weights than when it was distributed ({', '.join(added) or 'some were removed'}), as "
            "explainers such as GNNExplainer add them; change it before halowire.distribute, explain a plain model "
            "that model.state_dict() is loaded into, or take data.gather(data.edge_weight.grad) as the importance of "
            "edges"
        )
    buffers = dict(model.named_buffers())
    pairs: list[tuple[Tensor, Tensor]] = [(value, weights[name]) for name, value in copies.items()]
    pairs += [(value, buffers[name]) for name, value in pristine.named_buffers() if name in buffers]
    for value, now in pairs:
        if value.dtype != now.dtype:
            value.data = value.data.to(now.dtype)
