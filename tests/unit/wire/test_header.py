"""The header of a message: its bytes, the names of the codecs, and a sentence for everything that may be wrong."""

from __future__ import annotations

import pytest

from halowire.errors import MessageError
from halowire.wire import BITS, HEADER_BYTES, Rate, codec_of
from halowire.wire.header import CODEC, CODECS, LAYOUT, NO_EPOCH, Envelope, Header, kind_of, refuse_other

KIND = kind_of("4-bit levels", backward=True, between_stages=False, as_changes=False)
EXPECTED = Header.of(7, 3, 2, KIND, 40, 640)


def test_a_header_takes_sixteen_bytes_in_the_documented_order():
    assert HEADER_BYTES == 16
    data = LAYOUT.pack(*Header.of(0x01020304, 5, 6, KIND, 8, 9))
    assert data.hex() == f"04030201050006{KIND:02x}0800000009000000"
    assert Header.read(data) == Header(0x01020304, 5, 6, KIND, 8, 9)


def test_numbers_that_are_too_large_wrap_round_and_no_epoch_stands_apart():
    wrapped = Header.of(1, 65535, 256, 0, 2**32 + 3, 2**33 + 4)
    assert wrapped == Header(1, 0, 0, 0, 3, 4)
    assert Header.of(1, -1, 0, 0, 1, 1).epoch == NO_EPOCH and Header.of(1, 65534, 0, 0, 1, 1).epoch == 65534
    LAYOUT.pack(*wrapped)


def test_every_codec_has_a_number():
    assert len(set(CODECS)) == len(CODECS) <= CODEC + 1
    for bits in BITS:
        for code in ("minmax", "levels", "clipped"):
            try:
                rate = Rate(bits, code)
            except ValueError:
                continue
            assert codec_of(rate).wire_name in CODECS
            assert bits > 8 or f"{bits}-bit and more {code}" in CODECS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": 9}, "belongs to run 9, expected run 7; another run uses the same address and port"),
        ({"epoch": 4}, "is of epoch 4, expected epoch 3; the workers are out of step"),
        ({"epoch": NO_EPOCH}, "is of set-up or evaluation, expected epoch 3"),
        ({"layer": 1}, "is for layer 1, backward, between parts, expected layer 2, backward, between parts"),
        ({"kind": KIND & 0x7F}, "is for layer 2, forward, between parts, expected layer 2, backward"),
        ({"kind": KIND | 0x40}, "is for layer 2, backward, between stages, expected"),
        ({"kind": 0x80}, "is coded in float32, expected 4-bit levels; give all workers the same settings"),
        ({"kind": KIND | 0x20}, "is coded in 4-bit levels, as changes, expected 4-bit levels"),
        ({"kind": 0x80 | 30}, r"is coded in an unknown codec \(number 30\), expected 4-bit levels"),
        ({"rows": 41}, "has 41 rows, expected 40; give all workers shards of the same partition"),
        ({"length": 641}, "has 641 bytes for its 40 rows, expected 640"),
    ],
)
def test_every_difference_has_its_sentence(change, words):
    with pytest.raises(MessageError, match=f"^at epoch 3, layer 2, the message from rank 5 {words}"):
        refuse_other(EXPECTED, EXPECTED._replace(**change), 5, "epoch 3, layer 2")


def test_the_right_header_passes():
    refuse_other(EXPECTED, Header.read(LAYOUT.pack(*EXPECTED)), 5, "here")


def test_an_envelope_writes_and_checks_the_headers_of_its_peers_only():
    envelope = Envelope(3)
    envelope.sent = {2: EXPECTED}
    envelope.seal()
    assert bytes(envelope.leaving[2].tolist()) == LAYOUT.pack(*EXPECTED) and not envelope.leaving[1].any()
    envelope.arriving[1].copy_(envelope.leaving[2])
    envelope.check({1: EXPECTED}, (4, 5, 6), "here")
    with pytest.raises(MessageError, match="from rank 6 belongs to run 0"):
        envelope.check({2: EXPECTED}, (4, 5, 6), "here")
