"""The refusals of rows that are picked by numbers of the whole graph, and of whole tensors that meet rows of a part."""

from __future__ import annotations

from halowire.errors import InputError
from halowire.pyg.row_owner import Owner
from halowire.pyg.written import Asked

SHARES = {"homophily", "assortativity"}
"""Functions of PyG whose result is a share of all edges."""


def whole_tensor(owner: Owner) -> InputError:
    """The refusal of a tensor of all nodes that meets rows of ``owner``."""
    return InputError(
        f"a tensor of all {owner.whole} nodes is used with rows of this worker, which has {owner.owned} of them; "
        f"take its part first, tensor[{_numbers_of(owner)}], or make it an attribute of data before the graph is "
        "cut"
    )


def indexed_whole(owner: Owner) -> InputError:
    """The refusal of a tensor of all nodes that is indexed by numbers of the rows of ``owner``."""
    return InputError(
        f"a tensor of all {owner.whole} nodes is indexed by numbers of this worker's rows; take its part first: "
        f"tensor[{_numbers_of(owner)}]"
    )


def foreign_edges(owned: int, what: str) -> InputError:
    """The refusal of values of this worker's edges that are picked by ``what``."""
    return InputError(
        f"values of this worker's {owned} edges are picked by {what}, which would be other edges on every worker; "
        "make a mask of the edges before the graph is cut (data.edge_mask) and pick by its part, or pick from the "
        "values of all workers: data.gather(values)"
    )


def foreign_nodes(owner: Owner, what: str) -> InputError:
    """The refusal of rows of ``owner`` that are picked by ``what``."""
    more = f", {owner.kind!r}" if owner.kind else ""
    return InputError(
        f"rows of this worker, which has {owner.owned} of the {owner.whole} {owner.kind or 'nodes'}, are picked by "
        f"{what}, which would be other nodes on every worker; for numbers or a mask of the whole graph write "
        f"rows[data.translate(index{more})] (or halowire.shard(data, node_index=['name']) for an attribute of data), "
        f"for numbers of this worker's rows rows[data.own(index{more})]"
    )


def refuse_shares() -> None:
    """Refuse functions of PyG that compare the rows at both ends of all edges."""
    asked = Asked.here()
    if asked.function in SHARES:
        raise InputError(
            f"{asked.words('')} is a share of all edges, and a worker has only the edges into its own nodes; compute "
            "it before halowire.shard cuts the graph"
        )


def _numbers_of(owner: Owner) -> str:
    """What gives the whole graph's numbers of the rows, as a script writes it."""
    return f"data[{owner.kind!r}].rows" if owner.kind else "data.rows"
