#!/usr/bin/env bash
# librsvg 2.54.7 (Debian 12, librsvg2-bin 2.54.7+dfsg-1~deb12u2): rsvg-convert ignores textLength and lengthAdjust.
#
# Behaviour: SVG's textLength says how wide a text is drawn, and a browser stretches or shrinks it to that. librsvg draws
# the text in its natural width and reports no problem. Pictures of terminals as SVG rely on textLength to keep columns
# in place where the viewer has another font; converted to PNG by librsvg, their columns shift and tables lose alignment.
# Here one word is drawn once without the attribute, once four times as wide, with both values of lengthAdjust.
#
# Output seen:
#     rsvg-convert version 2.54.7
#     without: <digest>, spacing: <the same>, spacingAndGlyphs: <the same>, at another x: <another>
set -euo pipefail

version='2.54.7+dfsg-1~deb12u2'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
convert=$(command -v rsvg-convert || true)
if [ -z "$convert" ] || [ "$(dpkg-query -W -f '${Version}' librsvg2-bin 2>/dev/null)" != "$version" ]; then
    apt-get download -q "librsvg2-bin=$version" "librsvg2-2=$version" > download.log
    for package in ./*.deb; do dpkg -x "$package" tree; done
    convert=tree/usr/bin/rsvg-convert
    LD_LIBRARY_PATH=$(dirname "$(find "$PWD/tree" -name 'librsvg-2.so.2' | head -1)")
    export LD_LIBRARY_PATH
fi
"$convert" --version

picture() {  # the digest of a picture with this element's attributes
    printf '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="40"><rect width="400" height="40" fill="white"/>%s</svg>' \
        "<text y=\"28\" font-family=\"monospace\" font-size=\"16\" $1>counter</text>" > picture.svg
    "$convert" picture.svg -o picture.png
    sha256sum < picture.png | cut -c1-16
}

without=$(picture 'x="10"')
spacing=$(picture 'x="10" textLength="300" lengthAdjust="spacing"')
glyphs=$(picture 'x="10" textLength="300" lengthAdjust="spacingAndGlyphs"')
moved=$(picture 'x="60"')
echo "without: $without, spacing: $spacing, spacingAndGlyphs: $glyphs, at another x: $moved"
if [ "$without" != "$spacing" ] || [ "$without" != "$glyphs" ]; then
    echo "textLength is no longer ignored" >&2
    exit 1
fi
if [ "$without" = "$moved" ]; then
    echo "no text is drawn at all, so this shows nothing (a font is missing)" >&2
    exit 1
fi
