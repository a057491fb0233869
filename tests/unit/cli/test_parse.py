"""The message is found in tyro's box whatever it is drawn with."""

from __future__ import annotations

from halowire.cli.parse import one_line

UNICODE = """╭─ Unrecognized options ──────╮
│ Unrecognized options: --a-b, 3 │
│ ────────────────────────────── │
│ Perhaps you meant:             │
│     --a-c {x,y}                │
│         help (default: x)      │
╰────────────────────────────────╯
"""


def test_unicode_plain_and_coloured_boxes_say_the_same():
    expected = "unknown: --a-b 3; perhaps you meant --a-c"
    plain = UNICODE.translate(str.maketrans("╭╮╰╯│─", "++++|-"))
    assert one_line(UNICODE) == expected
    assert one_line(plain) == expected
    assert one_line(UNICODE.replace("--a-c", "\x1b[1m--a-c\x1b[0m")) == expected


def test_a_message_of_another_kind_is_kept():
    assert one_line("+- Odd -+\n| Something |\n| else      |\n+------+\n") == "Something else"
