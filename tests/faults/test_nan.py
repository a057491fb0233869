"""NaN and infinity: found on all workers in the same epoch, with the first layer and direction, and what then."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from halowire.errors import NotFiniteError
from halowire.events import read_events
from halowire.training import Hooks, Silent, Trainer
from tests.support.recipe_case import RECIPES, config_of, recipe_trainer
from tests.support.started import GRAPH, SETTINGS, ended, start, weights

STAGES = ("gnnpipe", "hybrid")
INFINITE = float("inf")


def poison(trainer: Trainer, name: str, value: float) -> None:
    """Set one value of a weight on this worker, as a failing memory chip would."""
    if name in trainer.runner.parameters:
        trainer.runner.parameters[name].data.view(-1)[0] = value


def hooks(trainer: Trainer, epoch: int, fault: Callable[[], None], warnings: list[str] | None = None) -> Hooks:
    """Let ``fault`` happen while ``epoch`` runs, before its step: the epoch after is the first to see it."""

    def inject() -> bool:
        if trainer.progress.epoch == epoch:
            fault()
        return False

    return Hooks(Silent(), should_stop=inject, warn=lambda text: None if warnings is None else warnings.append(text))


def lost_here(rank: int, run: str, recipe: str, name: str, value: float, at: int, who: int | None) -> dict[str, object]:
    """Train until a weight of worker ``who`` (None: of all) is poisoned in epoch ``at``; what this worker says then."""
    trainer = recipe_trainer(rank, run, config_of(recipe))
    with pytest.raises(NotFiniteError) as caught:
        trainer.run(hooks(trainer, at, lambda: poison(trainer, name, value) if who in (None, rank) else None))
    return {"words": str(caught.value), "epoch": trainer.progress.epoch, "names": list(trainer.runner.parameters)}


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe not in STAGES])
def test_every_worker_names_epoch_layer_and_direction(on_workers, tmp_path, recipe):
    """A weight of the second layer goes bad on one worker only; the newest checkpoint is from before."""
    name = second_layer_weight(on_workers, tmp_path, recipe)
    results = on_workers(2, lost_here, str(tmp_path / "run"), recipe, name, math.nan, 4, 1)
    words = {result["words"] for result in results}
    assert len(words) == 1, "all workers say the same"
    said = words.pop()
    assert said.startswith("epoch 5: ") and "layer 1, forward, has" in said, said
    assert "not finite on rank 1" in said and f"the weight {name} has 1 value" in said, said
    assert [result["epoch"] for result in results] == [5, 5]
    assert newest(tmp_path / "run") == "epoch-000004"
    assert all(math.isfinite(float(abs(value).max())) for value in weights(tmp_path / "run").values())


def second_layer_weight(on_workers: Callable[..., list[list[str]]], folder: Path, recipe: str) -> str:
    names = on_workers(2, names_here, str(folder / "names"), recipe)[0]
    return next(name for name in names if name.startswith("blocks.1.") and "weight" in name)


def names_here(rank: int, run: str, recipe: str) -> list[str]:
    return list(recipe_trainer(rank, run, config_of(recipe)).runner.parameters)


@pytest.mark.parametrize(("recipe", "workers"), [("gnnpipe", 2), ("hybrid", 4)])
def test_all_stages_stop_in_the_same_epoch(on_workers, tmp_path, recipe, workers):
    names = {name for rank in on_workers(workers, names_here, str(tmp_path / "names"), recipe) for name in rank}
    name = next(name for name in sorted(names) if name.startswith("blocks.2.") and name.endswith("weight"))
    results = on_workers(workers, lost_here, str(tmp_path / "run"), recipe, name, math.nan, 4, None)
    assert len({result["words"] for result in results}) == 1
    said = str(results[0]["words"])
    assert said.startswith("epoch 5: ") and "layer 3, forward, has" in said and f"the weight {name}" in said, said
    assert newest(tmp_path / "run") == "epoch-000004"


def test_the_last_epoch_is_checked_too(on_workers, tmp_path):
    """A step that makes a weight infinite has no epoch after it whose loss would show it."""
    for workers, recipe in ((2, "exact"), (2, "gnnpipe")):
        run = tmp_path / recipe
        names = on_workers(workers, names_here, str(tmp_path / "names"), recipe)[-1]
        results = on_workers(workers, lost_here, str(run), recipe, names[-1], INFINITE, 7, None)
        for result in results:
            assert str(result["words"]).startswith(f"after epoch 7: the weight {names[-1]} has 1 value that is not")
        assert newest(run) == "epoch-000006" and not (run / "summary.json").exists()


def backward_here(rank: int, run: str) -> str:
    """A gradient that overflows on its way back, while the loss stays finite."""
    trainer = recipe_trainer(rank, run, config_of("exact"))
    task = trainer.runner._train_task  # type: ignore[attr-defined]
    loss = type(task).loss

    class Steep(type(task)):  # type: ignore[misc]
        def loss(self, logits, epoch=0):
            found = loss(self, logits, epoch)
            return found + (logits - logits.detach()).sum() * (1e38 if epoch == 3 and rank == 1 else 0)

    object.__setattr__(trainer.runner, "_train_task", Steep(**vars(task)))
    with pytest.raises(NotFiniteError) as caught:
        trainer.run()
    return str(caught.value)


def test_a_gradient_that_overflows_is_found_though_the_loss_is_finite(on_workers, tmp_path):
    said = set(on_workers(2, backward_here, str(tmp_path)))
    assert len(said) == 1
    words = said.pop()
    assert words.startswith("epoch 3: the gradient of ") and ", backward, has" in words and "on rank 1" in words, words


def feature_here(rank: int, run: str) -> str:
    """A feature goes bad on rank 1 after the run began; the first aggregate is computed once, so dropout is off."""
    trainer = recipe_trainer(rank, run, config_of("exact", model__name="gat"))
    x = trainer.runner.shard.x

    def fault() -> None:
        if rank == 1:
            x[0, 0] = math.nan

    with pytest.raises(NotFiniteError) as caught:
        trainer.run(hooks(trainer, 2, fault))
    return str(caught.value)


def test_a_feature_that_goes_bad_is_named(on_workers, tmp_path):
    said = set(on_workers(2, feature_here, str(tmp_path)))
    assert len(said) == 1
    words = said.pop()
    assert words.startswith("epoch 3: ") and "the input feature matrix x has 1 value" in words, words
    assert "layer 0, forward" in words, words


def lower_here(rank: int, run: str, recipe: str) -> dict[str, object]:
    """Weights go bad in epoch 5 as long as the learning rate is above a quarter of the first."""
    config = config_of(recipe, on_nan="resume-lower-lr", optim__lr=0.01)
    trainer = recipe_trainer(rank, run, config)
    name = next(iter(trainer.runner.parameters))
    warnings: list[str] = []

    def fault() -> None:
        if trainer.optimiser.lr > 0.003:
            poison(trainer, name, math.nan)

    summary = trainer.run(hooks(trainer, 5, fault, warnings))
    return {"summary": summary, "warnings": warnings, "weights": [p.detach() for p in trainer.parameters]}


@pytest.mark.parametrize(("recipe", "workers"), [("exact", 2), ("sylvie-a", 2), ("halowire", 2), ("hybrid", 4)])
def test_the_run_goes_back_and_lowers_its_learning_rate(on_workers, tmp_path, recipe, workers):
    results = on_workers(workers, lower_here, str(tmp_path), recipe)
    for result in results:
        assert result["summary"]["lowered"] == 2 and result["summary"]["status"] == "finished"
        assert all(bool(torch.isfinite(value).all()) for value in result["weights"])
        assert len(result["warnings"]) == 2 and "0.25 times the learning rate (0.0025)" in result["warnings"][1]
    for rank in range(workers):
        events = read_events(tmp_path / f"events-{rank}.jsonl")
        epochs = [event for event in events if event["event"] == "epoch"]
        assert [event["epoch"] for event in epochs] == list(range(8))
        assert [event["lr"] for event in epochs] == [0.01] * 4 + [0.0025] * 4, "it goes back to epoch 4"
        assert events[-1]["event"] == "end"


def from_the_start_here(rank: int, run: str) -> dict[str, object]:
    config = config_of("sylvie-a", on_nan="resume-lower-lr", checkpoint__every=0)
    trainer = recipe_trainer(rank, run, config)
    before = [p.detach().clone() for p in trainer.parameters]
    name = next(iter(trainer.runner.parameters))
    seen: list[bool] = []

    def fault() -> None:
        if not trainer.progress.lowered:
            poison(trainer, name, math.nan)

    def inject() -> bool:
        if trainer.progress.epoch == 0 and trainer.progress.lowered:
            seen.append(all(torch.equal(a, b) for a, b in zip(trainer.parameters, before, strict=True)))
        return hooks(trainer, 1, fault).should_stop()

    return {"summary": trainer.run(Hooks(Silent(), should_stop=inject)), "seen": seen}


def test_without_a_checkpoint_it_goes_back_to_the_beginning(on_workers, tmp_path):
    for result in on_workers(2, from_the_start_here, str(tmp_path)):
        assert result["summary"]["lowered"] == 1 and result["seen"] == [True]


def hopeless_here(rank: int, run: str) -> str:
    trainer = recipe_trainer(rank, run, config_of("exact", on_nan="resume-lower-lr"))
    name = next(iter(trainer.runner.parameters))
    with pytest.raises(NotFiniteError) as caught:
        trainer.run(hooks(trainer, 3, lambda: poison(trainer, name, math.nan)))
    assert trainer.progress.lowered == 5
    return str(caught.value)


def test_after_five_times_it_gives_up(on_workers, tmp_path):
    assert len(set(on_workers(2, hopeless_here, str(tmp_path)))) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_says_what_to_do_and_goes_on_with_a_lower_learning_rate(tmp_path):
    """A learning rate that overflows after some epochs; then `--resume` with another one, and again."""
    words = ("train", GRAPH, *SETTINGS, "--workers", "2", "--epochs", "6", "--checkpoint.every", "1", "--out", "run")
    warm = ("--optim.schedule", "step", "--optim.step-every", "3", "--optim.step-factor", "1e30")
    code, said = ended(start(tmp_path, *words, *warm, "--optim.lr", "0.01"))
    assert code == 1 and said.count("\n") == 1, said
    assert "epoch 4: " in said and "layer" in said and "try a smaller --optim.lr" in said, said
    # The checkpoint after epoch 4 is finite, but the step before it was so large that its next epoch is not.
    assert "stopped with a checkpoint after epoch 3 of 6" in said, said
    code, said = ended(start(tmp_path, *words, *warm, "--optim.lr", "0.02", "--resume"))
    assert code == 2 and "a resumed run may only lower it" in said, said
    code, said = ended(start(tmp_path, *words, *warm, "--optim.lr", "1e-35", "--optim.clip", "1", "--resume"))
    assert code == 2 and "--optim.clip" in said, said
    code, said = ended(start(tmp_path, *words, *warm, "--optim.lr", "1e-35", "--resume"))
    assert code == 0, said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["epochs"] == 6
    assert json.loads((tmp_path / "run" / "config.json").read_text())["optim"]["lr"] == 1e-35
    lower = [event for event in read_events(tmp_path / "run" / "events-0.jsonl") if event["event"] == "lowered"]
    assert len(lower) == 1 and lower[0]["lr"] == 1e-35
    code, said = ended(start(tmp_path, *words, *warm, "--optim.lr", "0.01", "--resume"))
    assert code == 2 and "--optim.lr 1e-35" in said, "a further resume knows the lower one"


def newest(run: Path) -> str:
    return sorted(path.name for path in (run / "checkpoints").glob("epoch-*"))[-1]
