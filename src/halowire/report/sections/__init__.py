"""The sections of the pages; each tells one thing about a run, about several runs or about a comparison of recipes."""

from halowire.report.sections.compared_recipes import (
    ComparedRecipe,
    comparison_figures,
    comparison_headline,
    recipes_table,
)
from halowire.report.sections.curves import curve_figures
from halowire.report.sections.inside_epoch import epoch_figures, pipeline_figure
from halowire.report.sections.layout import how_hidden, serving_kernels, who_owns_what
from halowire.report.sections.overview import headline, key_numbers, runs_table, subtitle, when_and_how_it_ended
from halowire.report.sections.run_settings import differing_settings, repeat, repeat_comparison, settings_by_group

__all__ = [
    "ComparedRecipe", "comparison_figures", "comparison_headline", "curve_figures",
    "differing_settings", "epoch_figures", "headline", "how_hidden", "key_numbers", "pipeline_figure",
    "recipes_table", "repeat", "repeat_comparison", "runs_table", "serving_kernels", "settings_by_group", "subtitle",
    "when_and_how_it_ended", "who_owns_what",
]  # fmt: skip
