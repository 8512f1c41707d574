//! Lines, a series each, which the script makes walkable by the arrow keys.

use crate::report::lines::{Drawn, Lines, Mark};
use crate::report::markup::{Html, each, html, numbered};

pub fn html(lines: &Lines) -> Html {
    html!(
        r#"<div class="lines" data-lines>
<p class="axis-name">{unit}</p>
<div class="plot">
<svg width="100%" height="380" tabindex="0" role="img" aria-label="Lines: {unit} by {what}. The arrow keys go from point to point; the table has them all.">
{y_ticks}{x_ticks}{series}</svg>
</div>
<p class="axis-name x">{x_label}</p>
<p class="legend keys">
{keys}</p>
<p class="readout" aria-live="polite"></p>
</div>
"#,
        unit = lines.unit,
        what = lines.x_label.to_lowercase(),
        y_ticks = each(&lines.y_ticks, |tick| html!(
            r#"<line class="grid" x1="0" x2="100%" y1="{at}%" y2="{at}%"/><text class="y" x="0" dx="-8" y="{at}%" dy="4">{text}</text>"#,
            at = tick.at,
            text = tick.text,
        )),
        x_ticks = numbered(&lines.x_ticks, |index, tick| html!(
            r#"<line class="tick" x1="{at}%" x2="{at}%" y1="100%" y2="100%"/><text class="x{second}" x="{at}%" y="100%" dy="20">{text}</text>"#,
            at = tick.at,
            second = if index % 2 == 1 { " second" } else { "" },
            text = tick.text,
        )),
        series = each(&lines.series, series),
        x_label = lines.x_label,
        keys = each(&lines.series, |one| html!(
            r##"<span class="series s{look}"><svg width="30" height="14" aria-hidden="true"><line x1="0" x2="30" y1="7" y2="7"/><use href="#m{look}" x="15" y="7"/></svg>{name}</span>"##,
            look = one.look,
            name = one.name,
        )),
    )
}

fn series(series: &Drawn) -> Html {
    html!(
        r#"<g class="series s{look}">
<svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none" overflow="visible"><polyline points="{points}"/></svg>
{marks}<text class="end" x="100%" dx="12" y="{label_y}%" dy="4">{name}</text>
</g>
"#,
        look = series.look,
        points = series.points,
        marks = each(&series.marks, |Mark { x, y, low, high, said }| html!(
            r##"<line class="spread" x1="{x}%" x2="{x}%" y1="{low}%" y2="{high}%"/><use href="#m{look}" x="{x}%" y="{y}%" data-said="{said}"/>"##,
            x = x,
            y = y,
            low = low,
            high = high,
            look = series.look,
            said = said,
        )),
        label_y = series.label_y,
        name = series.name,
    )
}
