"""How the nodes were set is shown with a run, each setting under its whole name."""

from labconsole.store.records import parse_record
from labconsole.tui.screens.runs.run_pages import nodes_page
from support.report_runs import measured


def test_settings_of_nodes_are_shown_with_their_whole_names():
    record = measured(1, 60.0, block=1)
    nodes = {name: dict(said) for name, said in record["environment"]["nodes"].items()}
    nodes["uut"]["settings"] = {"net.core.netdev_budget_usecs": "8000", "eth1 qdiscs": "tbf rate 5", "turbo": True}
    record["environment"] = {**record["environment"], "nodes": nodes}
    lines = ["".join(text for text, _ in row).split() for row in nodes_page(parse_record(record, "x"), 80)]
    place = lines.index(["Settings", "of", "uut", "as", "the", "trial", "began"])
    assert lines[place + 1 :] == [
        ["net.core.netdev_budget_usecs", "8000"],
        ["eth1", "qdiscs", "tbf", "rate", "5"],
        ["turbo", "yes"],
    ]
