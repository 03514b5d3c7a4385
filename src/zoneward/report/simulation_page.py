"""A simulation as one page: everything is in it, and it needs no script and no network."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from zoneward.report.markup import Content, Markup, joined, name, page, table, tag
from zoneward.report.simulation_plots import plot_sections
from zoneward.report.simulation_words import columns_legend, encoding_name, facts, in_short, partial_mark
from zoneward.routing.scores import BOUND, CREDITS, Difference, Means, Quantiles, Simulation, WorstRow
