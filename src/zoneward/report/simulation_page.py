"""A simulation as one page: everything is in it, and it needs no script and no network."""

from collections.abc import Iterator

from zoneward.report.markup import Content, Markup, joined, name, page, tag
from zoneward.report.score_tables import best_of, number
from zoneward.report.simulation_sections import encoding_name, encodings_of, sections, within
from zoneward.routing.simulation_results import BOUND, Simulation


def simulation_page(simulation: Simulation, *, command: str = "") -> str:
    """The page, whole. ``command`` is what made it, where it shall say so."""
    found = tuple(sections(simulation))
    title = f"Simulation: {simulation.dataset}"
    links = (tag("a", each.title, href=f"#{each.key}") for each in found)
    return page(
        f"PARTIAL: {title}" if simulation.partial else title,
        tag("h1", "Simulation: ", name(simulation.dataset)),
        *_partial(simulation),
        _facts(simulation, command),
        *_in_short(simulation),
        tag("nav", *links, aria_label="Contents") if found else tag("p", "No input was scored."),
        *(tag("section", tag("h2", each.title), *each.content, id=each.key) for each in found),
        tag(
            "footer",
            "Made by zoneward simulate. For programs: ",
            tag("code", "-o json"),
            " or ",
            tag("code", "-o csv"),
            ".",
        ),
    )


def _partial(simulation: Simulation) -> Iterator[Markup]:
    if simulation.partial:
        seen = f"{simulation.rows + simulation.unscored:,} of {simulation.of:,}"
        yield tag(
            "p",
            tag("strong", "PARTIAL RESULT"),
            f"It was stopped early: all that follows is about the first {seen} inputs. The rest may be different.",
            class_="partial",
            role="note",
        )


def _facts(simulation: Simulation, command: str) -> Markup:
    facts: list[tuple[str, Content]] = [
        ("dataset", name(simulation.dataset)),
        ("inputs", f"{simulation.rows:,}" + (f" of {simulation.of:,}, partial" if simulation.partial else "")),
    ]
    if simulation.of < simulation.whole:
        facts.append(("a sample of", f"{simulation.whole:,}"))
    if simulation.unscored:
        facts.append(("not scored: no endpoint or no node", f"{simulation.unscored:,}"))
    facts.append(("seed", str(simulation.seed)))
    if command:
        words = (tag("span", each) for each in command.split(" "))
        facts.append(("command", tag("code", joined(words, between=" "))))
    return tag("dl", *(tag("div", tag("dt", what), tag("dd", said)) for what, said in facts), class_="facts")


def _in_short(simulation: Simulation) -> Iterator[Markup]:
    """Who is best, before anybody has to read a table."""
    lines = []
    for encoding in encodings_of(simulation):
        means = within(simulation.means, encoding)
        best = best_of(means)
        if best is None or best.credits is None:
            continue
        bounds = [each.credits["total"] for each in means if each.algorithm == BOUND and each.credits is not None]
        limit = f"; the bound is {number(bounds[0])}" if bounds else ""
        reached = (best.wins + best.ties) / max(simulation.rows, 1)
        lines.append(
            tag(
                "li",
                f"{encoding_name(encoding)}: ",
                tag("strong", name(best.algorithm)),
                f" has the best mean total, {number(best.credits['total'])}{limit}. "
                f"For {reached:.1%} of the inputs no other has a higher one.",
            )
        )
    if lines:
        yield tag("ul", *lines, class_="short")
