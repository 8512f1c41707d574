//! Bars, each with samples, interval and the published figure.

use super::{axis, rules};
use crate::report::bars::{Bars, Row};
use crate::report::markup::{Html, each, html, when};

pub fn html(bars: &Bars) -> Html {
    let has_legend = bars.published || bars.unsound || !bars.limits.is_empty();
    html!(
        "<div class=\"bars\">\n{}{}<ul>\n{}</ul>\n</div>\n",
        when(has_legend, || legend(bars)),
        axis(&bars.ticks, bars.unit),
        each(&bars.rows, |one| row(bars, one)),
    )
}

fn legend(bars: &Bars) -> Html {
    html!(
        r#"<p class="legend">
<span><svg width="26" height="12" aria-hidden="true"><rect class="bar" y="1" width="26" height="10"/></svg>{plain}</span>
{unsound}{published}{limits}</p>
"#,
        plain = if bars.unsound { "sound" } else { "measured here" },
        unsound = when(bars.unsound, || html!(
            r#"<span><svg width="26" height="12" aria-hidden="true"><rect class="bar unsound" x=".5" y="1.5" width="25" height="9"/></svg>not sound</span>"#
        )),
        published = when(bars.published, || html!(
            r#"<span><svg width="26" height="12" aria-hidden="true"><rect class="published" x=".5" y="3.5" width="25" height="5"/></svg>published</span>"#
        )),
        limits = each(&bars.limits, |limit| html!(
            r#"<span><svg width="26" height="12" aria-hidden="true"><line class="limit" x1="13" x2="13" y1="0" y2="12"/></svg>{}</span>"#,
            limit.text
        )),
    )
}

fn row(bars: &Bars, row: &Row) -> Html {
    html!(
        r#"<li class="row" tabindex="0">
<span class="name"><code>{name}</code>{about}</span>
<svg class="track" width="100%" height="40" aria-hidden="true" focusable="false">
{grid}{limits}{bar}
</svg>
<span class="value"><b>{value}</b> <span class="sr">{unit}, interval</span><small>{interval}</small>{also}</span>
<span class="tip">{facts}</span>
</li>
"#,
        name = row.name,
        about = when(!row.about.is_empty(), || html!("<small>{}</small>", row.about)),
        grid = rules("grid", &bars.ticks),
        limits = rules("limit", &bars.limits),
        bar = bar(row),
        value = row.value,
        unit = bars.unit,
        interval = row.interval,
        also = also(row),
        facts = each(&row.facts, |(name, fact)| html!("<span><b>{}</b> {}</span>", name, fact)),
    )
}

/// The bar itself; higher up where the published figure is below.
fn bar(row: &Row) -> Html {
    let is_published = !row.published.is_empty();
    let (top, middle): (usize, usize) = if is_published { (7, 15) } else { (12, 20) };
    html!(
        r#"<rect class="bar{unsound}" x="0" y="{top}" width="{to}%" height="16"/>
{published}{spread}"#,
        unsound = if row.sound == Some(false) { " unsound" } else { "" },
        top = top,
        to = row.to,
        published = row.published_to.map_or_else(Html::default, |to| html!(
            "<rect class=\"published\" x=\"0\" y=\"26\" width=\"{}%\" height=\"7\"/>",
            to
        )),
        spread = html!(
            r#"<g class="spread" transform="translate(0 {middle})"><line x1="{low}%" x2="{high}%"/><line x1="{low}%" x2="{low}%" y1="-4" y2="4"/><line x1="{high}%" x2="{high}%" y1="-4" y2="4"/></g>
<g class="dots" transform="translate(0 {middle})">{dots}</g>"#,
            middle = middle,
            low = row.low,
            high = row.high,
            dots = each(&row.dots, |dot| html!("<circle cx=\"{}%\" r=\"1.7\"/>", dot)),
        ),
    )
}

/// Whether the way is sound, and the published figure.
fn also(row: &Row) -> Html {
    let sound = row.sound.map_or_else(Html::default, |is_sound| {
        let (class, word) = if is_sound { ("sound", "sound") } else { ("unsound", "not sound") };
        html!("<span class=\"{}\">{}</span>", class, word)
    });
    let published =
        when(!row.published.is_empty(), || html!(" <small>published {}</small>", row.published));
    when(sound != Html::default() || published != Html::default(), || {
        html!("<span class=\"also\">{}{}</span>", sound, published)
    })
}
