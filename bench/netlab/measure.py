"""Prints which rates the links reach, one way and both ways at once: python -m bench.netlab.measure [RATE ...]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.netlab.lab import Lab, LabError
from bench.netlab.rate import parse_rate

STREAM = Path(__file__).with_name("stream.py")
RATES = ("10mbit", "20mbit", "50mbit", "100mbit", "200mbit", "500mbit", "1gbit", "2gbit")
SECONDS = 2.0


def achieved(lab: Lab, count: int, way: str) -> float:
    """Bits per second of payload when ``count`` bytes travel ``one`` way or ``both``; the slower direction counts."""
    with tempfile.TemporaryDirectory(prefix="netlab-") as folder:
        results = lab.run(["python", str(STREAM), str(count), way], timeout=120, logs=Path(folder))
        if any(result.code for result in results):
            raise LabError("the stream failed: " + " ".join(result.output for result in results))
        return min(float(result.output) for result in results if result.output)


def main() -> int:
    """The table; the exit code is 1 if a rate is missed by more than a tenth."""
    rates = sys.argv[1:] or RATES
    missed = 0
    try:
        with Lab(hosts=2, rate=None) as lab:
            print(f"{'asked':>10} {'one way':>16} {'both ways':>16}   (payload, mbit/s and share of the rate)")
            for rate in rates:
                lab.set_rate(rate)
                asked = parse_rate(rate)
                found = [achieved(lab, int(asked / 8 * SECONDS), way) for way in ("one", "both")]
                missed += any(abs(bits / asked - 1) > 0.1 for bits in found)
                print(f"{rate:>10}" + "".join(f"{bits / 1e6:10.1f} {bits / asked:5.1%}" for bits in found), flush=True)
    except (LabError, ValueError) as error:
        print(f"netlab: {error}", file=sys.stderr)
        return 2
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
