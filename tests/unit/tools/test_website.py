"""The tools of the documentation site: plots, the terminal, and the check of a built site."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLE = """
## Results

| benchmark | what | result | ratio | goal |
|---|---|---|---|---|
| `drift` | file deleted, p50 (floor 0.605 ms) | 3.15 ms | 5.21x | 3x: **missed** |
| `drift` | default interval of CFEngine | 300 s |  |  |
| `process` | resident, ours | 28.4 MiB | 1.00x | 30 MiB: met |
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def texts(drawing: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def test_results_are_read_as_numbers() -> None:
    from tools.website.results import Results

    results = Results(TABLE)
    deleted = results.row("drift", "file deleted, p50")
    assert (deleted.seconds(), deleted.times(), deleted.goal_times()) == (0.00315, 5.21, 3.0)
    assert results.row("drift", "default interval of CFEngine").seconds() == 300
    assert results.row("process", "resident, ours").mebibytes() == 28.4
    assert results.row("process", "resident, ours").goal_times() is None


def test_a_result_that_is_gone_or_odd_is_named() -> None:
    from tools.website.results import Results, Unreadable

    results = Results(TABLE)
    with pytest.raises(Unreadable, match=r"docs/benchmarks\.md has no result 'get, p50'"):
        results.row("embedded", "get, p50")
    with pytest.raises(Unreadable, match=r"cannot read '28\.4 MiB' as a time"):
        results.row("process", "resident, ours").seconds()
    with pytest.raises(Unreadable, match="cannot read '' as a ratio"):
        results.row("drift", "default interval of CFEngine").times()


def test_a_longer_bar_is_a_larger_number() -> None:
    from tools.website.bars import Bar, Plot

    drawn = Plot("Times", "", (Bar("a", 1, "1 s"), Bar("b", 3, "3 s")), {0.0: "0", 4.0: "4"}).draw()
    widths = [float(width) for width in re.findall(r'<rect class="bar" .*?width="([\d.]+)"', drawn)]
    assert widths[1] == pytest.approx(3 * widths[0], rel=0.01)
    assert {"a", "1 s", "b", "3 s"} <= set(texts(drawn))


def test_every_arrow_ends_at_boxes_that_are_inside_the_picture() -> None:
    from tools.website import pictures

    for diagram in (pictures.FLOW, pictures.PROCESS, pictures.PASS, pictures.DRIFT):
        for box in diagram.boxes.values():
            assert box.x >= 0
            assert box.x + box.width <= diagram.size[0]
            assert box.y + box.height <= diagram.size[1]
        named = {end.partition(":")[0] for arrow in diagram.arrows for end in (arrow.start, arrow.end)}
        assert named <= set(diagram.boxes)


def test_a_terminal_shows_all_that_was_recorded_in_its_colours() -> None:
    from tools.website import cast, terminal

    recorded = cast.Cast("here", 40, ((0.0, "$ ls <x>\n"), (9.0, "a \x1b[32mgreen\x1b[0m b\n\nend\n")))
    assert cast.load(recorded.dump()) == recorded
    drawn = terminal.draw(recorded)
    assert texts(drawn) == ["here", "$", "ls <x>", "a", "green", "b", "end"]
    assert '<text class="g"' in drawn
    assert "animation-delay:2.1s" in drawn  # nobody waits for nine seconds


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    (tmp_path / "a.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "site.css").write_text("p {background: url(a.svg)}")
    (tmp_path / "index.html").write_text(
        "<link rel=stylesheet href=site.css><h1 id=top>x</h1><img src=a.svg alt=x><a href=more/#here>x</a>"
        "<a href=https://example.com/>may be linked to</a>"
    )
    (tmp_path / "more/index.html").write_text("<h2 id=here>x</h2><a href=../index.html#top>x</a>")
    return tmp_path


def test_a_good_site_has_no_faults(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tools.website import verify

    assert verify.faults(site) == []
    assert verify.main([str(site)]) == 0
    assert "2 pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ("<a href=lost.html>x</a>", "lost.html leads nowhere"),
        ("<a href=more/#lost>x</a>", "more/#lost leads to a page that has no such section"),
        ("<script src=//cdn.example/x.js></script>", "loads //cdn.example/x.js from another host"),
        ("<link rel=preconnect href=https://fonts.example>", "loads https://fonts.example from another host"),
        ("<img src=a.svg>", "a picture that says nothing to who cannot see it: a.svg"),
        ("<img src=lost.png alt=x>", "lost.png leads nowhere"),
        ("<pre class=mermaid>flowchart LR</pre>", "a diagram as text: draw it in tools/website/pictures.py"),
    ],
)
def test_a_fault_is_told_with_its_page(
    html: str, said: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tools.website import verify

    (site / "page.html").write_text(html)
    assert verify.main([str(site)]) == 1
    assert capsys.readouterr().err == f"page.html: {said}\n"


def test_styles_and_pictures_load_nothing_from_others(site: Path) -> None:
    from tools.website import verify

    (site / "site.css").write_text("@import 'https://fonts.example/a.css';")
    (site / "a.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg'><image href='//x.example/b.png'/></svg>"
    )
    assert verify.faults(site) == [
        "a.svg: loads //x.example/b.png from another host",
        "site.css: loads https://fonts.example/a.css from another host",
    ]


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    from tools.website import verify

    assert verify.faults(tmp_path) == [f"{tmp_path}: no page at all; run make docs"]
