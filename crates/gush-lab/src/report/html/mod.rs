//! The page as HTML: the frame around its figures, and tables.

mod table;

use super::markup::{Html, each, html, numbered, said, when};
use super::page::{Body, Figure, Page, Section, Warning};
use super::scale::Tick;

/// The whole page. `policy` limits a browser's loads; `style` is ours and is not escaped.
pub fn page(page: &Page, policy: &str, style: &'static str) -> Html {
    html!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>gush lab: how fast this machine moves bytes</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the figures</a>
<svg class="hatching" width="0" height="0" aria-hidden="true" focusable="false"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/><rect class="hatch-line" width="2.4" height="6"/></pattern></defs></svg>
<header>
<p class="brand"><svg width="22" height="22" viewBox="0 0 24 24" aria-hidden="true"><path class="stream" d="M2 7h8c5 0 5 10 10 10h2M2 12h6c4 0 4 7 8 7M2 17h4"/></svg>gush lab</p>
<p class="byline">{byline}</p>
<h1>{lead}</h1>
{warnings}</header>
<div class="columns">
{contents}<main id="main" tabindex="-1">
{sections}{samples}</main>
</div>
</body>
</html>
"##,
        policy = policy,
        style = Html(style.to_owned()),
        lead = said(&page.lead),
        byline = page.byline,
        warnings = when(!page.warnings.is_empty(), || warnings(&page.warnings)),
        contents = when(!page.sections.is_empty(), || contents(page)),
        sections = each(&page.sections, section),
        samples = page.runs_href.as_deref().map_or_else(Html::default, samples),
    )
}

fn warnings(warnings: &[Warning]) -> Html {
    let facts = |warning: &Warning| {
        numbered(&warning.facts, |index, fact| {
            let head = if index == 0 {
                html!("<strong>{}</strong>", fact.head)
            } else {
                html!("{}", fact.head)
            };
            let of = when(!fact.of.is_empty(), || html!(" <small>({})</small>", fact.of));
            html!("{}{}{}. ", head, fact.rest, of)
        })
    };
    html!(
        r#"<aside class="warnings" aria-labelledby="warnings">
<h2 id="warnings">Take these figures with care</h2>
<ul>
{}</ul>
</aside>
"#,
        each(warnings, |warning| html!("<li>{}{}</li>\n", facts(warning), warning.remedy)),
    )
}

fn contents(page: &Page) -> Html {
    let link = |id: &str, title: &str| html!("<li><a href=\"#{}\">{}</a></li>\n", id, title);
    html!(
        "<nav aria-label=\"Contents\">\n<ol>\n{}{}</ol>\n</nav>\n",
        each(&page.sections, |section| link(section.id, &section.title)),
        when(page.runs_href.is_some(), || link("samples", "Samples")),
    )
}

fn section(section: &Section) -> Html {
    html!(
        r#"<section id="{id}" aria-labelledby="{id}-title">
<h2 id="{id}-title">{title}</h2>
{said}{figures}{notes}</section>
"#,
        id = section.id,
        title = section.title,
        said = each(&section.said, |sentence| html!("<p class=\"said\">{}</p>\n", said(sentence))),
        figures = numbered(&section.figures, |index, one| figure(
            &format!("{}-{}", section.id, index + 1),
            one
        )),
        notes = each(&section.notes, |note| html!("<p class=\"note\">{}</p>\n", said(note))),
    )
}

fn figure(id: &str, figure: &Figure) -> Html {
    html!(
        r#"<figure aria-labelledby="{id}">
<figcaption id="{id}">{caption}</figcaption>
{views}</figure>
"#,
        id = id,
        caption = said(&figure.caption),
        views = match &figure.views[..] {
            views @ ([] | [_]) => each(views, |one| body(&one.body, &figure.caption)),
            _ => views(id, figure),
        },
    )
}

/// Several views, of which the reader chooses one.
fn views(id: &str, figure: &Figure) -> Html {
    html!(
        r#"<div class="views{print}" role="group" aria-label="View">
{views}</div>
"#,
        print = if figure.print_all { " print-all" } else { "" },
        views = numbered(&figure.views, |index, one| html!(
            r#"<input type="radio" name="{id}-view" id="{id}-{number}"{checked}><label for="{id}-{number}">{label}</label>
<div class="body">
{body}</div>
"#,
            id = id,
            number = index + 1,
            checked = if index == 0 { " checked" } else { "" },
            label = one.label,
            body = body(&one.body, &figure.caption),
        )),
    )
}

fn body(body: &Body, caption: &str) -> Html {
    match body {
        Body::Drawn(html) => html.clone(),
        Body::Table(table) => table::html(table, caption),
        Body::Picture { href, alt, name } => html!(
            r#"<div class="picture"><img src="{href}" alt="{alt}"></div>
<p><a class="button" download="{name}" href="{href}">Save as {name}</a></p>
"#,
            href = href,
            alt = alt,
            name = name,
        ),
        Body::Text { text } => html!("<pre tabindex=\"0\">{}</pre>\n", text),
    }
}

fn samples(href: &str) -> Html {
    html!(
        r#"<section id="samples" aria-labelledby="samples-title">
<h2 id="samples-title">Samples</h2>
<p class="said">Every raw sample is in this file. <code>gush lab report</code> makes this page of it again; <code>gush lab import</code> and <code>gush lab export --csv</code> make a table of it.</p>
<p><a class="button" download="gush-lab.json" href="{}">Runs and samples as JSON</a></p>
</section>
"#,
        href,
    )
}

/// The axis above rows of bars.
pub(super) fn axis(ticks: &[Tick], unit: &str) -> Html {
    html!(
        r#"<div class="axis" aria-hidden="true"><span></span><svg class="track" width="100%" height="20">
{}</svg><span class="unit">{}</span></div>
"#,
        numbered(ticks, |index, tick| {
            let class = if index == 0 { html!(" class=\"first\"") } else { Html::default() };
            html!("<text x=\"{}%\" y=\"14\"{}>{}</text>", tick.at, class, tick.text)
        }),
        unit,
    )
}

/// Upright lines of a class through a row of bars.
pub(super) fn rules(class: &str, ticks: &[Tick]) -> Html {
    each(ticks, |tick| {
        html!(
            "<line class=\"{c}\" x1=\"{x}%\" x2=\"{x}%\" y1=\"0\" y2=\"100%\"/>",
            c = class,
            x = tick.at
        )
    })
}
