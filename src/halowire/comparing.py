"""A comparison trains the runs that are missing, one after the other, and keeps the numbers of all."""

from __future__ import annotations

from typing import Any

from halowire.errors import InputError, Interrupted, TrainingError
from halowire.graph import Graph
from halowire.launch import folder_locked, launched, refuse_missing_means
from halowire.partitioning import is_shard_folder
from halowire.report import Console, count_line, table_rows, write_compare_page, write_record
from halowire.running import RunOptions, graph_name, graph_source, train_run, worker_count
from halowire.training import (
    RECIPES,
    Cell,
    Comparison,
    cut_for,
    is_shards,
    load_for,
    refuse_other_comparison,
    refuse_other_shards,
    refuse_untrainable,
)


class Comparing:
    """Carries out the comparison ``plan`` on ``graph``, each run with ``workers`` local workers."""

    def __init__(self, plan: Comparison, graph: Any, workers: int, console: Console) -> None:
        """Refuse a comparison that is impossible, before anything is written."""
        self.plan = plan
        self.graph = graph
        self.workers = workers
        self.console = console
        self.cells = list(plan.cells())
        self._loaded: Graph | None = None
        self._refuse_impossible()

    def run(self) -> dict[str, Any]:
        """Train the missing runs, write `compare.json` and `compare.html`, print the table; return `compare.json`.

        When the comparison is interrupted, or training fails, the finished runs are kept and compared.
        """
        with folder_locked(self.plan.folder, self.console.warn):
            return self._run()

    def _run(self) -> dict[str, Any]:
        for line in self.plan.notes():
            self.console.warn(line)
        try:
            self._train_missing()
        except (KeyboardInterrupt, TrainingError) as error:
            kept = self._keep_finished()
            raise (
                TrainingError(f"{error}; {kept}") if isinstance(error, TrainingError) else Interrupted(kept)
            ) from None
        record = self._write_record()
        page = write_compare_page(self.plan.folder)
        self.console.line("")
        self.console.table(table_rows(record), heads=2)
        self.console.line(count_line(record))
        self.console.line(f"page in {page}")
        return record

    def _refuse_impossible(self) -> None:
        if launched():
            raise InputError(
                "compare starts its workers itself; under torchrun use `halowire train`, then `halowire report`"
            )
        if is_shards(self.graph):
            raise InputError(
                f"{self.graph} holds shards; a comparison cuts the graph anew for every seed: give the graph"
            )
        for cell in self.cells:
            try:
                worker_count(self.workers, self.graph, cell.config)
                refuse_missing_means(cell.config.device, cell.config.transport, self.workers)
            except InputError as error:
                raise InputError(f"{cell.recipe} cannot run here: {error}") from None
        refuse_other_comparison(self.plan, graph_source(self.graph), self.workers)

    def _train_missing(self) -> None:
        """Train every run that is not finished yet, and show how far the comparison is."""
        with self.console.runs_progress(len(self.cells), self.cells[0].config.epochs) as progress:
            for cell in self.cells:
                label = f"{cell.recipe} seed {cell.seed}"
                if (found := cell.summary()) is not None:
                    progress.finish(label, found, earlier=True)
                    continue
                graph = self._trained_on(cell)
                self._write_record()
                progress.start(label, cell.folder)
                options = RunOptions(resume=cell.begun, quiet=True, table=False)
                try:
                    run = train_run(graph, self.workers, cell.recipe, cell.folder, cell.settings, options)
                except TrainingError as error:
                    raise TrainingError(f"{label}: {error}") from None
                progress.finish(label, run.summary)

    def _trained_on(self, cell: Cell) -> Any:
        """What the cell trains on: the shards of its seed, cut at the first need, or the graph if it cuts its own."""
        if not cell.shared:
            return self.graph
        target = self.plan.shards(cell.seed)
        config = self.plan.cut_config(cell.seed)
        if is_shard_folder(target):
            known = self.graph if isinstance(self.graph, Graph) else None
            refuse_other_shards(target, self.workers, config, known)
            return target
        if self._loaded is None:
            self._loaded = load_for(self.graph, config)
            refuse_untrainable(self._loaded, config.task.kind == "link")
        cut_for(self._loaded, self.workers, target, config, Console(quiet=True))
        method = config.partition.method
        self.console.line(f"cut the graph for seed {cell.seed} into {self.workers} shards by {method}: {target}")
        return target

    def _write_record(self) -> dict[str, Any]:
        """Write `compare.json` with the runs that are finished."""
        plan = self.plan
        done = [(cell.recipe, cell.seed, cell.folder.name, found) for cell in self.cells if (found := cell.summary())]
        about = {
            "graph": graph_name(self.graph),
            "source": graph_source(self.graph),
            "workers": self.workers,
            "seeds": list(plan.seeds),
            "recipes": list(plan.recipes),
            "summaries": {recipe: RECIPES[recipe].summary for recipe in plan.recipes},
            "settings": plan.settings,
            "notes": plan.notes(),
        }
        return write_record(plan.folder, about, done)

    def _keep_finished(self) -> str:
        """Write the comparison of the finished runs; return words that say how to go on."""
        done = sum(cell.summary() is not None for cell in self.cells)
        if done:
            self._write_record()
            write_compare_page(self.plan.folder)
        return f"{done} of {len(self.cells)} runs are finished and kept in {self.plan.folder}; the same command goes on"
