"""The frame of an inline SVG figure that is as wide as the page allows while its text keeps its size.

Horizontal positions are per cent of the plot, vertical ones are pixels; labels hang over the plot's edges into padding
that the frame reserves. Curves live in a nested coordinate system that stretches with the plot.
"""

from __future__ import annotations

from halowire.report.markup import Html, tag

STRETCH = 1000
"""Units across the nested coordinate system of the curves."""

CHARACTER = 6.9
"""A generous width of a character at the label size, for reserving room."""


def across(fraction: float) -> str:
    """A horizontal position: a fraction of the plot's width as per cent."""
    return f"{100 * fraction:.3f}".rstrip("0").rstrip(".") + "%"


def down(pixels: float) -> str:
    """A vertical position in pixels."""
    return f"{pixels:.1f}".removesuffix(".0")


def room(labels: list[str], least: int = 0) -> int:
    """Pixels to reserve for the longest of the labels."""
    return max([least, *(round(len(label) * CHARACTER) for label in labels)])


def frame(title: str, description: str, height: float, padding: tuple[int, int, int, int], *children: object) -> Html:
    """A figure's SVG, an image with title and description, in a box padded (top, right, bottom, left) for labels."""
    top, right, bottom, left = padding
    drawing = tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *children,
        role="img",
        aria_label=f"{title}. {description}",
        width="100%",
        height=down(height),
        overflow="visible",
    )
    return tag("div", drawing, class_="plot", style=f"padding:{top}px {right}px {bottom}px {left}px")


def stretched(height: float, *children: object) -> Html:
    """A coordinate system of STRETCH units across the plot's width and of pixels down its height."""
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {STRETCH} {down(height)}",
        width="100%",
        height=down(height),
        preserveAspectRatio="none",
        overflow="visible",
    )


def beyond(*children: object) -> Html:
    """A coordinate system in pixels whose origin is the plot's top right corner."""
    return tag("svg", *children, x="100%", overflow="visible")
