"""A new kind of call is rehearsed by all workers at once; if one of them cannot go on, all of them refuse alike."""

from __future__ import annotations

import torch
from torch import nn

from halowire.errors import InputError
from halowire.events import SETUP
from halowire.pyg.home_choice import rehearsed_at_home, settled_first
from halowire.pyg.node_weights import NodeWeights
from halowire.pyg.rehearsal import UncheckableError, in_thread
from halowire.pyg.same_weights import all_alike
from halowire.pyg.trial import Call, Rehearsed
from halowire.training import Config, agreed
from halowire.wire import RowCodec, Transport

WHERE = "check of a new kind of call, with other arguments, flags or texts than before, which all workers make together"
"""Where a worker waits that alone calls a model otherwise, or alone has changed it."""


def agreed_rehearsal(
    model: nn.Module, call: Call, weights: NodeWeights, config: Config, codec: RowCodec | None
) -> Rehearsed:
    """What is known of ``call`` of a pristine ``model``; the arguments are those of `rehearsed_at_home`.

    All workers call this together. What one of them cannot run is refused on all, with the same words.
    """
    transport, failure, known = call.data.transport, None, Rehearsed((), False)
    kept = float(len(call.kept_names))
    told = torch.tensor([call.data.num_local_edges, kept, kept * kept], dtype=torch.float64)
    edges, total, square = transport.all_reduce(told, WHERE, SETUP).tolist()
    try:
        if call.doubt is not None:
            raise call.doubt
        if not all_alike(transport.size, [total], [square]):
            raise InputError(
                "the model is called with a tensor of data itself on some workers (data.x), and with other values on "
                "others (data.x.clone()), so that only some of them would exchange its rows; make the copy on all "
                "workers, or on none"
            )
        most = call.data.most_nodes + int(edges)
        # A thread of its own has none of the modes that the caller is in, such as autocast and inference mode.
        known = in_thread(lambda: rehearsed_at_home(model, call, most, weights, config))
    except InputError as error:
        failure = _of_edges(error, model, int(edges))
    uncheckable = isinstance(failure, UncheckableError)
    failures = torch.tensor([float(failure is not None and not uncheckable), float(uncheckable)])
    transport.all_reduce(failures, "check of the model", SETUP)
    refused, unchecked = (float(count) > 0 for count in failures)
    if not refused and not unchecked:
        return settled_first(known, call, config, codec)
    telling = failure if refused != uncheckable else None
    raise _shared(telling, InputError if refused else UncheckableError, transport) from failure


def _of_edges(error: InputError, model: nn.Module, edges: int) -> InputError:
    """``error``, with the way out where ``model`` has a weight with a value for each of the graph's ``edges``."""
    found = [name for name, value in model.named_parameters() if edges in value.shape]
    if not isinstance(error, UncheckableError) or not found:
        return error
    return UncheckableError(
        f"{error}; its weight {found[0]} has as many values as the whole graph has edges: make it outside of the "
        "model, torch.nn.Parameter(torch.rand(data.num_whole_edges)[data.edge_rows]), and call the model with it, as "
        "with edge_weight"
    )


def _shared(failure: InputError | None, kind: type[InputError], transport: Transport) -> InputError:
    """The error to raise on all workers: it says what the first worker that has a ``failure`` says."""

    def tell() -> None:
        if failure is not None:
            raise failure

    try:
        agreed(tell, transport, "refusal of the model")
    except InputError as error:
        return kind(str(error))
    raise AssertionError("no worker has a reason to refuse the model")
