"""The picture of the demo's screen: what is drawn, and which screen is chosen."""

import xml.etree.ElementTree as ET

import draw_demo

SVG = "{http://www.w3.org/2000/svg}"
SCREEN = """\x1b[1mReservations\x1b[0m
  cr-1  m5.xlarge  targeted  \x1b[32m■\x1b[0m□  1 of 2 in use
\x1b[1mNodes\x1b[0m
  general-1  m5.2xlarge  \x1b[33mspot     \x1b[0m  $0.11  ready       web x2   \x1b[2mno free slot fits\x1b[0m
\x1b[1mPods\x1b[0m
  web     3 of 3 run
  api     1 of 1 run"""


def test_every_part_is_drawn_at_its_column_with_its_color() -> None:
    picture = draw_demo.drawing("ab  \x1b[32m■\x1b[0m□ <x>\r\n\r\n  \x1b[1mc d\x1b[0m")
    texts = ET.fromstring(picture).iter(f"{SVG}text")  # noqa: S314 - ours
    assert [(text.text, text.get("class"), _column(text), text.get("y")) for text in texts] == [
        ("ab", None, 0, "29"),
        ("■", "r", 4, "29"),
        ("□ <x>", None, 5, "29"),
        ("c d", "b", 2, "65"),
    ]


def _column(text: ET.Element) -> int:
    return round((float(text.get("x", "0")) - draw_demo.MARGIN) / draw_demo.WIDTH)


def test_wanted_screen_has_full_reservations_a_ready_spot_node_and_running_pods() -> None:
    full = SCREEN.replace("1 of 2 in use", "2 of 2 in use").replace("\n", "\r\n")
    assert draw_demo.is_wanted(full)
    assert not draw_demo.is_wanted(SCREEN)
    assert not draw_demo.is_wanted(full.replace("ready  ", "booting"))
    assert not draw_demo.is_wanted(full.replace("3 of 3 run", "2 of 3 run"))
    assert not draw_demo.is_wanted("")


def test_committed_picture_is_a_wanted_screen_and_small() -> None:
    picture = draw_demo.PICTURE.read_text(encoding="utf-8")
    texts = [text.text or "" for text in ET.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314 - ours
    assert "Reservations" in texts
    assert "spot" in texts
    assert len(picture.encode()) < 60_000
