"""What a script changes in a model after it was distributed: the copy that is rehearsed follows, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from halowire.errors import InputError
from halowire.pyg.entries import ModuleEntry


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


def refuse_again(model: nn.Module, attribute: str) -> None:
    """Refuse a model that is distributed, or has a part that is: modules that are have the ``attribute``."""
    if attribute in vars(model):
        raise InputError("the model is distributed already; distribute a fresh one (copy.deepcopy before, not after)")
    for name, module in model.named_modules():
        if attribute in vars(module):
            raise InputError(
                f"layer {name!r} of the model is distributed already; distribute the whole model alone, without a call "
                "of halowire.distribute for the layer"
            )


def refuse_replaced(model: nn.Module) -> None:
    """Refuse modules that halowire has not seen, such as another norm, which would be over this worker's rows alone."""
    for name, module in model.named_modules():
        if not name:
            continue  # its outputs are rows that know whose they are, whatever a hook does
        first = next((key for key, hook in module._forward_hooks.items() if _is_entry(hook)), None)
        if first is None:
            raise InputError(
                f"layer {name!r}, {type(module).__name__}, was put into the model after halowire.distribute, and was "
                "not checked; make the model anew, load model.state_dict() into it, put the layer in, and distribute it"
            )
        _guard(name, module._forward_hooks, first)
        _guard(name, module._forward_pre_hooks, first)


def _is_entry(hook: Any) -> bool:
    """Whether ``hook`` is halowire's own."""
    return isinstance(getattr(hook, "__self__", None), ModuleEntry)


def _guard(name: str, hooks: dict[int, Callable[..., Any]], first: int) -> None:
    """Let the ``hooks`` of a layer that came after halowire's, number ``first``, look at values, but change none."""
    for key, hook in hooks.items():
        late = key > first and not _is_entry(hook)
        if late and not (isinstance(hook, partial) and hook.func is _only_looking):
            hooks[key] = partial(_only_looking, hook, name)


def _only_looking(hook: Callable[..., Any], name: str, *given: Any) -> None:
    """Call a ``hook`` of the layer ``name``; refuse a result, which would take the place of the layer's values."""
    if hook(*given) is not None:
        words = getattr(hook, "__qualname__", type(hook).__name__)
        raise InputError(
            f"a hook of layer {name!r} ({words}) changes its values, and was added after halowire.distribute, so that "
            "it was not checked; add it before"
        )
