"""Compares a rendered plot with the colours that its SVG names: plots.py PLOT.svg PLOT.png"""

import re
import sys

from PIL import Image

EDGE = 8
NEAR = 40


def rgb(name):
    digits = name.lstrip("#")
    digits = "".join(c * 2 for c in digits) if len(digits) == 3 else digits
    return tuple(int(digits[i : i + 2], 16) for i in (0, 2, 4))


def shown(colour, opacity):
    """The colour on white paper."""
    return tuple(round(c * opacity + 255 * (1 - opacity)) for c in colour)


def main(svg, png):
    text = re.sub(r"<style>.*?</style>", "", open(svg, encoding="utf-8").read(), flags=re.DOTALL)
    picture = Image.open(png).convert("RGB")
    width, height = picture.size
    _, _, units, tall = map(float, re.search(r'viewBox="([^"]+)"', text).group(1).split())
    height = min(height, round(width * tall / units))
    pixels = picture.load()
    wrong = []
    edge = [(x, y) for y in range(height) for x in (*range(EDGE), *range(width - EDGE, width))]
    if any(min(pixels[place]) < 250 for place in edge):
        wrong.append(f"the left or right edge of {EDGE} pixels is not empty paper")
    found = picture.crop((0, 0, width, height)).getcolors(width * height)
    for element in re.findall(r"<(?:text|rect|line|polyline|circle)\b[^>]*>", text):
        opacity = float((re.search(r'fill-opacity="([^"]+)"', element) or [0, "1"])[1])
        for kind, name in re.findall(r'\b(fill|stroke)="(#[0-9a-f]+)"', element):
            wanted = shown(rgb(name), opacity if kind == "fill" else 1)
            count = sum(n for n, c in found if max(abs(a - b) for a, b in zip(c, wanted)) <= NEAR)
            if count < 10 and 'width="0"' not in element:
                wrong.append(f"{name} of {element} is not in the picture")
    if wrong:
        print("\n".join(sorted(set(wrong))))
        sys.exit(1)


main(*sys.argv[1:])
