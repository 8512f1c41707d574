#!/usr/bin/env bash
# The README's picture: makes the report from runs and photographs three figures of it.
#
#   docs/picture.sh [RUN|FILE…]     as gush lab report takes them; docs/report.json unless some are named
#
# GUSH is the program (cargo gush unless given), PICTURE where the picture goes (docs/report.png).
# Of the machine at hand, when it is quiet:
#
#   gush lab pipe && gush lab memory && gush lab export last last~1 --json >docs/report.json && docs/picture.sh
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
picture=$(realpath -m "${PICTURE:-$here/report.png}")
size=800,830
# A README shows a picture 830 pixels wide or less: with more pixels than that the small text stays sharp.
scale=1.5
most_bytes=300000

for browser in chromium chromium-browser google-chrome google-chrome-stable ''; do
    if command -v "$browser" >/dev/null; then
        break
    fi
done
if [[ -z $browser ]]; then
    echo "docs/picture.sh: no Chromium on this machine: install the package chromium" >&2
    exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [[ $# -eq 0 ]]; then
    set -- "$here/report.json"
fi
if [[ -n ${GUSH:-} ]]; then
    gush=("$GUSH")
else
    gush=(cargo run --quiet --release --features full --manifest-path "$here/../Cargo.toml" --)
fi
"${gush[@]}" lab report "$@" --report "$scratch/report.html" >/dev/null

# The picture has the throughputs into pipes of 1 MiB, where each technique is next to its rivals under the same conditions. The sentences,
# the processor seconds, the ladder of the published steps and the buttons that a picture cannot have are left out.
# The page's own policy admits no style but the page's.
sed -i '/Content-Security-Policy/d' "$scratch/report.html"
cat >>"$scratch/report.html" <<'STYLE'
<style>
#pipe > h2, #pipe > p, #pipe figure:not(:nth-of-type(2), :nth-of-type(3), :nth-of-type(4)), #pipe .views > label,
#pipe figure:nth-of-type(n + 3) .legend { display: none }
#pipe figure { margin-block: 0 1.4rem }
#pipe .views { margin: 0; row-gap: 0 }
#pipe .views > .body { padding-top: 0 }
</style>
STYLE

# A photograph begins where its page does; in a frame, that can be the pipes.
printf '<!doctype html><body style="margin: 0"><iframe src="report.html#pipe" style="%s"></iframe>' \
    "display: block; border: 0; width: ${size/,*/px}; height: ${size/*,/}px" >"$scratch/frame.html"
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --disable-background-networking --hide-scrollbars --disable-lcd-text --force-prefers-reduced-motion \
    --user-data-dir="$scratch/profile" --window-size="$size" --force-device-scale-factor="$scale" \
    --screenshot="$scratch/report.png" "file://$scratch/frame.html" >/dev/null 2>"$scratch/browser" ||
    { cat "$scratch/browser" >&2; exit 1; }

bytes=$(stat -c %s "$scratch/report.png")
if ((bytes > most_bytes)); then
    echo "docs/picture.sh: the picture has $bytes bytes, and $most_bytes is the most" >&2
    exit 1
fi
mv "$scratch/report.png" "$picture"
echo "$picture"
