"""`halowire predict RUN --out FILE` writes the predictions of a trained model for every node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from halowire import api
from halowire.cli.parse import parse
from halowire.launch import Place


@dataclass(frozen=True)
class Arguments:
    """Write a trained model's predictions for every node, in the order of the graph."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """run folder, as `halowire train --out` wrote it"""
    out: Annotated[str, tyro.conf.arg(metavar="FILE")]
    """FILE.npy for the model's outputs (logits), FILE.csv for lines of id,class or id,value"""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """where the model runs; left out, as the run was trained"""


def run(argv: list[str]) -> int:
    """Write the predictions of a run to a file, and print the name of the file."""
    arguments = parse(Arguments, "predict", argv)
    target = api.predict(arguments.run, arguments.out, device=arguments.device)
    if Place.here().rank == 0:
        print(f"predictions in {target}")
    return 0
