"""The mesh: what is possible, what is chosen, what is refused and with which words."""

from __future__ import annotations

import pytest

from halowire.errors import InputError
from halowire.schedules import Mesh
from halowire.training import Config, Situation, mesh_of, pipelined, recipe_config, refuse


@pytest.mark.parametrize(
    ("asked", "workers", "found"),
    [
        ((1, 0, 0), 4, (1, 4, 1)),
        ((0, 0, 0), 4, (1, 4, 1)),
        ((0, 1, 0), 4, (4, 1, 16)),
        ((0, 2, 0), 4, (2, 2, 8)),
        ((2, 0, 3), 4, (2, 2, 3)),
        ((0, 1, 0), 1, (1, 1, 1)),
        ((1, 2, 5), 2, (1, 2, 5)),
    ],
)
def test_the_mesh_of_settings(asked, workers, found):
    assert Mesh.of(*asked, workers) == Mesh(*found)


def test_every_worker_has_one_place():
    mesh = Mesh(3, 2, 1)
    places = [mesh.place(rank) for rank in range(mesh.workers)]
    assert len(set(places)) == 6 and places[3] == (1, 1)
    assert [mesh.rank(*place) for place in places] == list(range(6))


@pytest.mark.parametrize(
    ("stages", "parts", "asked"),
    [
        (3, 0, "--mesh.stages 3"),
        (0, 3, "--mesh.parts 3"),
        (2, 1, "--mesh.stages 2 and --mesh.parts 1"),
        (8, 1, "--mesh.stages 8 and --mesh.parts 1"),
        (0, 5, "--mesh.parts 5"),
    ],
)
def test_a_mesh_that_does_not_fit_names_those_that_do(stages, parts, asked):
    said = f"a mesh of 4 workers cannot have {asked}; possible stages x parts: "
    with pytest.raises(InputError, match=f"{said}1 x 4, 2 x 2, 4 x 1$"):
        Mesh.of(stages, parts, 0, 4)
    with pytest.raises(InputError, match=f"{said}1 x 4, 2 x 2$"):
        Mesh.of(stages, parts, 0, 4, blocks=3)


def test_more_stages_than_blocks_and_more_chunks_than_nodes_are_refused():
    with pytest.raises(InputError, match=r"4 stages cannot share 3 blocks.*: 1 x 4, 2 x 2;"):
        Mesh(4, 1, 8).refuse_impossible(3, 100)
    with pytest.raises(InputError, match=r"8 chunks .* smallest part's 7 nodes; use --mesh.chunks 1 to 7"):
        Mesh(4, 1, 8).refuse_impossible(4, 7)
    Mesh(4, 1, 8).refuse_impossible(4, 8)


def refuse_mesh(config: Config, workers: int) -> None:
    refuse(config, Situation(mesh_of(config, workers)))


@pytest.mark.parametrize(
    ("settings", "workers", "words"),
    [
        ({"mesh.stages": 4}, 4, "cannot share 3 blocks"),
        ({"mesh.stages": 2, "mesh.split": "1,1"}, 2, "2 stages and 2 blocks in all"),
        ({"mesh.stages": 2, "mesh.split": "3,x"}, 2, "number of blocks of every stage"),
        ({"mesh.stages": 2, "mesh.split": "\u00b2,1"}, 2, "number of blocks of every stage"),
        ({"mesh.stages": 2, "rate.gain": 0.2, "rate.decay": 1.0}, 2, "use --rate.gain 1"),
        ({"mesh.stages": 0, "mesh.parts": 2}, 2, "nothing is pipelined; use 4 workers or more, or --mesh.stages 1"),
        ({"mesh.split": "3"}, 1, "no effect without more than one stage"),
        ({"mesh.history": 5}, 1, "no effect without more than one chunk"),
        ({"mesh.stages": 2, "mesh.chunks": 1, "mesh.shuffle": False}, 2, "no effect without more than one chunk"),
        ({"mesh.gradient_rule": "stale"}, 2, "no effect without more than one chunk"),
        ({"model.name": "gcnii", "model.residual": 0.1}, 1, "belongs to hidden layers of gcn and sage"),
        ({"mesh.stages": 2, "freshness.mode": "delayed"}, 2, "a stage cannot go on without its input"),
        ({"mesh.stages": 2, "rate.rows": 0.5}, 2, "a row that does not arrive"),
        ({"mesh.chunks": 2, "rate.rows": 0.5}, 2, "does not go with several chunks in several parts"),
        ({"mesh.chunks": 2, "freshness.mode": "delayed"}, 2, "does not go with several chunks in several parts"),
        ({"mesh.stages": 2, "rate.decay": 0.5}, 4, "rate.decay 0.5 does not go .* turn it off with --rate.decay -1"),
        ({"mesh.stages": 2, "rate.share": 0.05, "rate.bits": 1}, 2, "rate.share 0.05 fits bits to the rows of a halo"),
        ({"mesh.stages": 2, "freshness.mode": "never"}, 2, "never has no effect with one part"),
    ],
)
def test_what_has_no_meaning_is_refused_with_the_reason(settings, workers, words):
    with pytest.raises(InputError, match=words):
        refuse_mesh(Config().replace(settings), workers)


@pytest.mark.parametrize(
    ("name", "workers", "found"),
    [
        ("pipeline", 2, (2, 1, 8)),
        ("gnnpipe", 2, (2, 1, 8)),
        ("gnnpipe-1bit", 3, (3, 1, 12)),
        ("hybrid", 4, (2, 2, 8)),
        ("exact", 4, (1, 4, 1)),
    ],
)
def test_recipes_resolve_with_the_number_of_workers(name, workers, found):
    config = recipe_config(name)
    refuse_mesh(config, workers)
    assert mesh_of(config, workers) == Mesh(*found)


def test_the_ways_out_that_refusals_name_are_ways_out():
    one_bit = recipe_config("gnnpipe-1bit")
    with pytest.raises(InputError, match=r"--rate\.decay -1"):
        refuse_mesh(one_bit.replace({"mesh.parts": 2}), 4)
    refuse_mesh(one_bit.replace({"mesh.parts": 2, "rate.decay": -1}), 4)
    refuse_mesh(Config().replace({"mesh.stages": 2, "freshness.mode": "never"}), 4)
    refuse_mesh(recipe_config("hybrid").replace({"mesh.stages": 1}), 2)


def test_rows_between_stages_have_a_rate_also_where_parts_exchange_none():
    never = recipe_config("hybrid").replace({"freshness.mode": "never", "rate.bits": 1})
    refuse(never)
    with pytest.raises(InputError, match=r"--rate\.bits has no effect with --freshness\.mode never"):
        refuse(Config().replace({"freshness.mode": "never", "rate.bits": 1}))


def test_only_the_published_pipeline_keeps_a_snapshot_for_23_epochs():
    ours = {recipe_config(name).mesh.history for name in ("pipeline", "hybrid", "gnnpipe-1bit", "exact")}
    assert recipe_config("gnnpipe").mesh.history == 23 and ours == {1}


def test_stages_chunks_and_kept_aggregates_select_the_pipeline():
    assert not pipelined(Config(), Mesh(1, 4, 1))
    assert pipelined(Config(), Mesh(2, 2, 1)) and pipelined(Config(), Mesh(1, 2, 3))
    assert pipelined(Config().replace({"mesh.keep": "aggregates"}), Mesh(1, 4, 1))
    refuse_mesh(Config().replace({"mesh.keep": "aggregates"}), 2)
