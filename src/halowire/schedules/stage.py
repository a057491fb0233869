"""A stage: the segments of a model that one worker runs, with the parameters that go with them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from halowire.layers import Entry, Inputs, Layer, Model, Output, Rows, Segment


@dataclass(frozen=True, eq=False)
class Stage:
    """Some neighbouring blocks of a model, as segments with aggregations between them.

    Attributes:
        entry: the model's entry, on the first stage.
        layers: the layers whose aggregations lie in this stage.
        output: the model's output, on the last stage, if the model has one.
        segments: the segments, one more than layers.
        parameters: the parameters that this stage trains, by name, in the model's order.
        initial: whether the layers read the model's initial rows.
        width: columns of the rows that enter the stage from another, and of the initial rows.
        number: the number of the first block's exchange, which the rows that enter the stage go to.
    """

    entry: Entry | None
    layers: tuple[Layer, ...]
    output: Output | None
    segments: tuple[Segment, ...]
    parameters: dict[str, nn.Parameter]
    initial: bool
    width: int
    number: int

    @property
    def out_width(self) -> int:
        """Columns of the rows that leave the stage."""
        return self.segments[-1].width if self.output is None else self.output.width

    @staticmethod
    def of(model: Model, first: int, stop: int, undropped: bool = False) -> Stage:
        """Blocks ``first`` to ``stop`` of ``model``; ``undropped``: rows travel before dropout where possible."""
        entry = model.make_entry() if first == 0 else None
        begin = 1 if first == 0 and model.aggregates_input else first
        layers = tuple(model.make_layer(block, undropped) for block in range(begin, stop))
        output = model.make_output() if stop == len(model.blocks) else None
        width = model.hidden_width
        firsts: list[Layer | Entry | None] = [entry, *layers]
        seconds: list[Layer | Output | None] = [*layers, output]
        segments = tuple(Segment(one, two, _width(one, width)) for one, two in zip(firsts, seconds, strict=True))
        used = _parameters(entry, layers, output)
        named = {name: value for name, value in model.named_parameters() if id(value) in used}
        number = model.layer_number(first)
        return Stage(entry, layers, output, segments, named, model.initial, width, number)

    def begin(self, inputs: Inputs | None, rows: Rows) -> None:
        """Begin a pass over all ``rows`` of a part, for which the weights may have changed."""
        if self.entry is not None:
            assert inputs is not None
            self.entry.begin(inputs, rows)
        for layer in self.layers:
            layer.begin()


def _width(piece: Layer | Entry | None, arriving: int) -> int:
    """Columns of the rows that ``piece`` makes; without one, of the rows that arrive."""
    if piece is None:
        return arriving
    return piece.out_width if isinstance(piece, Layer) else piece.width


def _parameters(entry: Entry | None, layers: tuple[Layer, ...], output: Output | None) -> set[int]:
    found = [] if entry is None else list(entry.parameters)
    for layer in layers:
        found += [*layer.prepare_parameters, *layer.finish_parameters]
    found += [] if output is None else output.prepare_parameters
    return {id(parameter) for parameter in found}
