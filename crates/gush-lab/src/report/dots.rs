//! Dots: the same case measured in several places, one mark a place on one line.

use super::html::{axis, rules};
use super::lines::LOOKS;
use super::markup::{Html, each, html, numbered};
use super::number::figure;
use super::page::Body;
use super::scale::{Scale, Tick};
use crate::cases::Estimate;
use crate::stats::Interval;

/// Draws each case's estimate under each key.
pub fn drawn(
    unit: &str,
    keys: &[String],
    rows: &[(String, Vec<Option<Estimate>>)],
    logarithmic: bool,
) -> Body {
    let values = rows
        .iter()
        .flat_map(|(_, estimates)| estimates.iter().flatten())
        .flat_map(Estimate::values);
    let scale = if logarithmic { Scale::logarithmic(values) } else { Scale::linear(values) };
    let ticks = scale.ticks();
    Body::Drawn(html!(
        r#"<div class="bars dotted">
<p class="legend">
{keys}</p>
{axis}<ul>
{rows}</ul>
</div>
"#,
        keys = numbered(keys, |index, name| html!(
            r##"<span class="series s{look}"><svg width="14" height="14" aria-hidden="true"><use href="#m{look}" x="7" y="7"/></svg>{name}</span>"##,
            look = index % LOOKS,
            name = name,
        )),
        axis = axis(&ticks, unit),
        rows = each(rows, |(name, estimates)| row(name, estimates, keys, &ticks, scale)),
    ))
}

fn row(
    name: &str,
    estimates: &[Option<Estimate>],
    keys: &[String],
    ticks: &[Tick],
    scale: Scale,
) -> Html {
    let known = || {
        let all = estimates.iter().enumerate().zip(keys);
        all.filter_map(|((index, one), key)| Some((index % LOOKS, one.as_ref()?, key)))
    };
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
        name = name,
        grid = rules("grid", ticks),
        marks = each(known(), |(look, one, _)| html!(
            r##"<g class="series s{look}">{around}<use href="#m{look}" x="{at}%" y="50%"/></g>"##,
            look = look,
            around = one.interval.map_or_else(Html::default, |Interval { low, high }| html!(
                "<line x1=\"{}%\" x2=\"{}%\" y1=\"50%\" y2=\"50%\"/>",
                scale.at(low),
                scale.at(high),
            )),
            at = scale.at(one.median),
        )),
        values = each(known(), |(look, one, key)| html!(
            r##"<span class="series s{look}"><svg width="14" height="12" aria-hidden="true"><use href="#m{look}" x="7" y="6"/></svg><span class="sr">{key}:</span><b>{value}</b></span> "##,
            look = look,
            key = key,
            value = figure(one.median),
        )),
        tips = each(known(), |(_, one, key)| html!(
            "<span><b>{}</b> {} {}</span>",
            figure(one.median),
            one.around(),
            key
        )),
    )
}
