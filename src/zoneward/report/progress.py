"""A column for progress bars."""

from rich.progress import ProgressColumn, Task

from zoneward.report.terminal_text import Text


class RateColumn(ProgressColumn):
    """Inputs a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "cyan")
