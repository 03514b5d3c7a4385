"""Write the dashboards for Grafana: run ``python -m deploy.make_dashboards`` after a change in ``deploy/dashboards/``.

They are made with Grafana's own SDK, which knows the fields that a dashboard has. `docs/dashboards.md` says what they
answer, and what they need. The program writes ``deploy/helm/monitoring/grafana/`` and nothing else.
"""

from pathlib import Path
from typing import Final

from deploy.dashboards.daemons import controller, meter, proxy
from deploy.dashboards.traffic import cluster, node, service

FOLDER: Final = Path(__file__).parent / "helm" / "monitoring" / "grafana"


def dashboards() -> dict[str, str]:
    """Names and contents of the files."""
    made = (cluster(), service(), node(), controller(), proxy(), meter())
    return {f"{board.name}.json": board.text() for board in made}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in dashboards().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
