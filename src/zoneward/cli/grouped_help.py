"""``--help`` of commands with many options: in groups, the command's own options first."""

from typing import Final

import click

_GROUPS: Final = {
    "Cluster or files": ("files", "sample", "contexts", "kubeconfig", "impersonate"),
    "Services": ("namespaces", "all_namespaces", "selector"),
    "Changes of the cluster": ("without_zones", "without_nodes", "replicas", "added_pods"),
    "Decisions": ("what_if", "proxy", "compat", "with_mode", "config", "demand"),
    "Measured traffic": ("measured_in", "window", "price_per_gb", "charge"),
    "Output": ("output", "to", "sort", "top", "changed", "details", "score", "watch", "color", "quiet", "verbose"),
}
"""Parameters by the heading of their group. All others are the command's own."""


class GroupedCommand(click.Command):
    """Shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        group_of = {name: group for group, names in _GROUPS.items() for name in names}
        records: dict[str, list[tuple[str, str]]] = {group: [] for group in ("Options", *_GROUPS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                records[group_of.get(parameter.name or "", "Options")].append(record)
        for group, rows in records.items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)
