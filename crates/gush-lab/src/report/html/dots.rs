//! A row of marks for each case, a mark for each key.

use super::{axis, rules};
use crate::report::dots::{Dots, Mark, Row};
use crate::report::markup::{Html, each, html};

pub fn html(dots: &Dots) -> Html {
    html!(
        r#"<div class="bars dotted">
<p class="legend">
{keys}</p>
{axis}<ul>
{rows}</ul>
</div>
"#,
        keys = each(&dots.keys, |key| html!(
            r##"<span class="series s{look}"><svg width="14" height="14" aria-hidden="true"><use href="#m{look}" x="7" y="7"/></svg>{name}</span>"##,
            look = key.look,
            name = key.name,
        )),
        axis = axis(&dots.ticks, dots.unit),
        rows = each(&dots.rows, |one| row(dots, one)),
    )
}

fn row(dots: &Dots, row: &Row) -> Html {
    html!(
        r#"<li class="row" tabindex="0">
<span class="name"><code>{name}</code></span>
<svg class="track" width="100%" height="34" aria-hidden="true" focusable="false">
{grid}{marks}
</svg>
<span class="value">{values}</span>
<span class="tip">{tips}</span>
</li>
"#,
        name = row.name,
        grid = rules("grid", &dots.ticks),
        marks = each(&row.marks, |Mark { look, at, low, high, .. }| html!(
            r##"<g class="series s{look}"><line x1="{low}%" x2="{high}%" y1="50%" y2="50%"/><use href="#m{look}" x="{at}%" y="50%"/></g>"##,
            look = look,
            low = low,
            high = high,
            at = at,
        )),
        values = each(&row.marks, |Mark { look, key, value, .. }| html!(
            r##"<span class="series s{look}"><svg width="14" height="12" aria-hidden="true"><use href="#m{look}" x="7" y="6"/></svg><span class="sr">{key}:</span><b>{value}</b></span> "##,
            look = look,
            key = key,
            value = value,
        )),
        tips = each(&row.marks, |Mark { key, value, interval, .. }| html!(
            "<span><b>{}</b> {}, {}</span>",
            value,
            interval,
            key
        )),
    )
}
