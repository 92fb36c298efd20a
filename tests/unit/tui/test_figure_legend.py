"""The legend of a figure in the console: only the curves that are drawn, told apart also where names are cut."""

from __future__ import annotations

from labconsole.contracts.report import Figure, Mark, Panel, PlottedCurve
from labconsole.tui.parts.charts import _legend


def test_a_legend_names_the_curves_of_its_panel_in_full_where_there_is_room() -> None:
    names = ["sent max", "sent 60kpps, 256 destinations", "sent 60kpps, 256 destinations, 20 filter rules"]
    curves = [PlottedCurve(each, (Mark(float(place), 1.0, None, None, 1),)) for place, each in enumerate(names)]
    panels = (Panel("one", tuple(curves[:2])), Panel("two", tuple(curves)))
    figure = Figure(name="f", title="t", kind="curves", x_label="", y_label="", panels=panels, caption="")

    def words(drawn: list[int], width: int, most_rows: int) -> list[str]:
        return ["".join(text for text, _ in row) for row in _legend(figure, names, drawn, width, most_rows)]

    assert words([0, 1], 120, 8) == ["  ● sent max   ▲ sent 60kpps, 256 destinations   "]
    assert words([0, 1, 2], 120, 8)[0].endswith("■ sent 60kpps, 256 destinations, 20 filter rules   ")
    narrow = words([0, 1, 2], 76, 2)
    assert "20 filter rules" in narrow[-1] and "256 destinations" in " ".join(narrow)
    assert "more" in words([0, 1, 2], 40, 1)[-1]
