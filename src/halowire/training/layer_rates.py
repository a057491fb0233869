"""Layers can have rates of their own: those that the settings name, or rates fitted to the width of the rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from halowire.errors import InputError
from halowire.kernels import CODE_BITS
from halowire.training.config import RateConfig
from halowire.wire import BACKWARD, BITS, FORWARD, Rate, codec_of

LayerBits = dict[tuple[int, str], int]
STEPS = {1: 2, 2: 4, 4: 8}
"""The next larger number of bits after each."""


def narrow_pair(flag: str, text: str, known: Collection[str]) -> tuple[str, str]:
    """What ``text`` says of narrowed rows and of their gradients: one value for both, or FORWARD/BACKWARD."""
    forward, slash, backward = text.partition("/")
    found = forward, backward if slash else forward
    for value in found:
        if value not in known:
            raise InputError(
                f"{flag} is {text!r}; give one value, or one forward and one backward such as A/B, each one of "
                f"{', '.join(known)}"
            )
    return found


def narrow_bits(rate: RateConfig) -> tuple[int, int] | None:
    """Bits of narrowed rows and of their gradients; None: those of other rows."""
    if not rate.narrow_bits:
        return None
    forward, backward = narrow_pair("--rate.narrow-bits", rate.narrow_bits, [str(number) for number in BITS])
    return int(forward), int(backward)


def narrow_codes(rate: RateConfig) -> tuple[str, str] | None:
    """The codes of narrowed rows and of their gradients; None: those of other rows."""
    return narrow_pair("--rate.narrow-code", rate.narrow_code, tuple(CODE_BITS)) if rate.narrow_code else None


def layer_codes(rate: RateConfig, layers: Collection[int], narrowed: Collection[int]) -> dict[tuple[int, str], str]:
    """The code of every layer that exchanges rows, by (layer, direction), for the bits that it takes."""
    usual = rate.code, rate.backward_code or rate.code
    narrow = narrow_codes(rate) or usual
    each = ((layer, narrow if layer in narrowed else usual) for layer in layers)
    return {(layer, way): code for layer, pair in each for way, code in zip((FORWARD, BACKWARD), pair, strict=True)}


def layer_bits(
    rate: RateConfig, layers: Collection[int], sent: Collection[int] | None = None, narrowed: Collection[int] = ()
) -> LayerBits:
    """Bits of every layer that exchanges rows, by (layer, direction); ``narrowed`` layers send narrowed rows.

    ``sent`` are the layers whose rows travel, if not all do, as between the stages of one part: every layer has bits,
    but naming a layer that is not sent is refused. ``--rate.layers`` holds LAYER:BITS for both directions, or
    LAYER:FORWARD/BACKWARD. Layer 0, the input, has no backward.
    """
    bits = {(layer, FORWARD): int(rate.bits) for layer in layers}
    bits |= {(layer, BACKWARD): int(rate.backward_bits or rate.bits) for layer in layers if layer > 0}
    if narrow := narrow_bits(rate):
        ways = zip((FORWARD, BACKWARD), narrow, strict=True)
        bits |= {(layer, way): number for way, number in ways for layer in narrowed}
    form = "LAYER:BITS or LAYER:FORWARD/BACKWARD"
    for layer, value in layer_pairs("--rate.layers", rate.layers, layers if sent is None else sent, form, "8/4"):
        forward, slash, backward = value.partition("/")
        if layer == 0 and slash:
            raise InputError(f"--rate.layers gives layer 0 {value!r} bits; raw features have no gradient, give 0:BITS")
        for number in (forward, backward) if slash else (forward,):
            if number not in map(str, BITS):
                known = ", ".join(map(str, BITS))
                raise InputError(f"--rate.layers gives layer {layer} {value!r} bits; give {form}, bits one of {known}")
        bits[layer, FORWARD] = int(forward)
        if layer > 0:
            bits[layer, BACKWARD] = int(backward if slash else forward)
    return bits


def layer_ratios(rate: RateConfig, layers: Collection[int], sent: Collection[int] | None = None) -> dict[int, float]:
    """Ratios of the layers that have a ratio of their own, which the schedule does not change.

    ``sent`` is as in :func:`layer_bits`. ``--rate.layer-ratios`` holds LAYER:RATIO; ``--rate.spare-last`` gives the
    last layer ratio 1, unless it is the only one: no layer would be left to drop columns of. A ratio has no direction:
    the columns of backward are those of forward.
    """
    ratios = {}
    named = layers if sent is None else sent
    for layer, value in layer_pairs("--rate.layer-ratios", rate.layer_ratios, named, "LAYER:RATIO", "4"):
        try:
            ratios[layer] = float(value)
        except ValueError:
            raise InputError(f"--rate.layer-ratios gives layer {layer} the ratio {value!r}; give a number") from None
    if rate.spare_last and len(layers) > 1:
        last = max(layers)
        if last in ratios:
            raise InputError(f"--rate.layer-ratios and --rate.spare-last both set the ratio of layer {last}; drop one")
        ratios[last] = 1.0
    return ratios


def layer_pairs(flag: str, text: str, layers: Collection[int], form: str, example: str) -> Iterator[tuple[int, str]]:
    """(layer, value) of every pair in ``text``."""
    seen: set[int] = set()
    for part in text.split(",") if text else ():
        name, colon, value = part.strip().partition(":")
        if not layers:
            raise InputError(f"{flag} is {text!r}, but a model of one layer exchanges no rows; leave it out")
        if not colon or not name.isdecimal() or int(name) not in layers:
            raise InputError(f"{flag} has {part!r}; give {form} with {_named(layers)}, such as {min(layers)}:{example}")
        if int(name) in seen:
            raise InputError(f"{flag} is {text!r}, which names layer {name} twice; name it once")
        seen.add(int(name))
        yield int(name), value


def _named(layers: Collection[int]) -> str:
    """``layers`` in words: *layers 1 to 4*, or one by one if the rows of the layers between do not travel."""
    first, last = min(layers), max(layers)
    if len(layers) == 1:
        return f"layer {first}, the only one whose rows travel"
    if len(layers) == last - first + 1:
        return f"layers {first} to {last}"
    return f"layers {', '.join(map(str, sorted(layers)))}, the only ones whose rows travel"


def fit_bits(base: int, widths: Mapping[int, int], share: float) -> LayerBits:
    """Bits by (layer, direction), at least ``base``, for rows of ``widths`` columns by layer.

    In each round one message takes the next step of 1, 2, 4, 8 bits: the one whose step adds the fewest bytes. Rounds
    go on while all rows of a halo node together take at most ``share`` of their ``4 k`` bytes in float32. Of equal
    messages the one with fewer bits goes first, then the earlier layer, then backward: the gradients of the last layer
    lose most by one bit. If not even ``base`` fits, every message has ``base`` bits.
    """
    places = [(layer, way) for layer in widths for way in (BACKWARD, FORWARD) if layer > 0 or way == FORWARD]
    bits = dict.fromkeys(places, base)
    room = sum(share * 4 * widths[layer] - _size(base, widths[layer]) for layer, _ in places)
    while room >= 0:
        steps = []
        for number, (layer, way) in enumerate(places):
            now, width = bits[layer, way], widths[layer]
            more = _size(STEPS[now], width) - _size(now, width) if now in STEPS else math.inf
            if more <= room:
                steps.append((more, STEPS[now], number))
        if not steps:
            break
        more, wider, number = min(steps)
        bits[places[number]] = wider
        room -= more
    return bits


def _size(bits: int, width: int) -> int:
    """Bytes of a row of ``width`` columns at ``bits``."""
    return codec_of(Rate(bits)).row_bytes(width)
