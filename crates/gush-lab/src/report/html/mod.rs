//! The page as HTML: the frame around its figures, and tables.

mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::page::{Figure, Page, Section, Warning};
use super::scale::Tick;
pub use table::table;

/// The whole page. `policy` limits a browser's loads; `style` is ours and is not escaped.
pub fn page(page: &Page, policy: &str, style: &'static str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { "gush lab: how fast this machine moves bytes" }
                link rel="icon" href="data:,";
                style { (PreEscaped(style)) }
            }
            body {
                a.skip href="#main" { "Skip to the figures" }
                svg.hatching width="0" height="0" aria-hidden="true" focusable="false" {
                    defs {
                        pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                            rect.hatch-ground width="6" height="6" {}
                            rect.hatch-line width="2.4" height="6" {}
                        }
                    }
                }
                header {
                    p.brand {
                        svg width="22" height="22" viewBox="0 0 24 24" aria-hidden="true" {
                            path.stream d="M2 7h8c5 0 5 10 10 10h2M2 12h6c4 0 4 7 8 7M2 17h4" {}
                        }
                        "gush lab"
                    }
                    p.byline { (page.byline) }
                    h1 { (said(&page.lead)) }
                    @if !page.warnings.is_empty() { (warnings(&page.warnings)) }
                }
                div.columns {
                    @if !page.sections.is_empty() { (contents(page)) }
                    main #main tabindex="-1" {
                        @for one in &page.sections { (section(one)) }
                        @if let Some(href) = &page.runs_href { (samples(href)) }
                    }
                }
            }
        }
    }
}

fn warnings(warnings: &[Warning]) -> Markup {
    html! {
        aside.warnings aria-labelledby="warnings" {
            h2 #warnings { "Take these figures with care" }
            ul {
                @for warning in warnings {
                    li {
                        @for (index, fact) in warning.facts.iter().enumerate() {
                            @if index == 0 { strong { (fact.head) } } @else { (fact.head) }
                            (fact.rest)
                            @if !fact.of.is_empty() { " " small { "(" (fact.of) ")" } }
                            ". "
                        }
                        (warning.remedy)
                    }
                }
            }
        }
    }
}

fn contents(page: &Page) -> Markup {
    let samples = page.runs_href.is_some().then_some(("samples", "Samples"));
    let sections = page.sections.iter().map(|section| (section.id, &*section.title));
    html! {
        nav aria-label="Contents" {
            ol {
                @for (id, title) in sections.chain(samples) { li { a href={ "#" (id) } { (title) } } }
            }
        }
    }
}

fn section(section: &Section) -> Markup {
    let title = format!("{}-title", section.id);
    html! {
        section id=(section.id) aria-labelledby=(title) {
            h2 id=(title) { (section.title) }
            @for sentence in &section.said { p.said { (said(sentence)) } }
            @for (one, number) in section.figures.iter().zip(1..) {
                (figure(&format!("{}-{number}", section.id), one))
            }
            @for note in &section.notes { p.note { (said(note)) } }
        }
    }
}

/// A figure; of several views the reader chooses one.
fn figure(id: &str, figure: &Figure) -> Markup {
    html! {
        figure aria-labelledby=(id) {
            figcaption id=(id) { (said(&figure.caption)) }
            @if let [(_, body)] = &figure.views[..] {
                (body)
            } @else {
                div.views.print-all[figure.print_all] role="group" aria-label="View" {
                    @for ((label, body), number) in figure.views.iter().zip(1..) {
                        @let view = format!("{id}-{number}");
                        input type="radio" name={ (id) "-view" } id=(view) checked[number == 1];
                        label for=(view) { (label) }
                        div.body { (body) }
                    }
                }
            }
        }
    }
}

fn samples(href: &str) -> Markup {
    html! {
        section #samples aria-labelledby="samples-title" {
            h2 #samples-title { "Samples" }
            p.said {
                "Every raw sample is in this file. " code { "gush lab report" }
                " makes this page of it again; " code { "gush lab import" } " and "
                code { "gush lab export --csv" } " make a table of it."
            }
            p { a.button download="gush-lab.json" href=(href) { "Runs and samples as JSON" } }
        }
    }
}

/// The axis above rows of bars.
pub(super) fn axis(ticks: &[Tick], unit: &str) -> Markup {
    html! {
        div.axis aria-hidden="true" {
            span {}
            svg.track width="100%" height="20" {
                @for (index, tick) in ticks.iter().enumerate() {
                    text x={ (tick.at) "%" } y="14" class=[(index == 0).then_some("first")] { (tick.text) }
                }
            }
            span.unit { (unit) }
        }
    }
}

/// Upright lines of a class through a row of bars.
pub(super) fn rules(class: &str, ticks: &[Tick]) -> Markup {
    html! {
        @for tick in ticks {
            line class=(class) x1={ (tick.at) "%" } x2={ (tick.at) "%" } y1="0" y2="100%" {}
        }
    }
}

/// A sentence: everything escaped, then `code` and **weight** marked.
fn said(text: &str) -> Markup {
    // Escaped first: the marks are no letters of HTML, so they survive it.
    let coded = marked(&html! { (text) }.into_string(), "`", "code");
    PreEscaped(marked(&coded, "**", "strong"))
}

/// Text between two `mark`s becomes an element; a mark without a second one stays.
fn marked(text: &str, mark: &str, element: &str) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let mut html = String::with_capacity(text.len());
    for (index, part) in parts.iter().enumerate() {
        let closed = index + 1 < parts.len();
        match (index % 2, closed) {
            (1, true) => html.push_str(&format!("<{element}>{part}</{element}>")),
            // A mark without its partner is a letter as any.
            (1, false) => html.push_str(&format!("{mark}{part}")),
            _ => html.push_str(part),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    #[test]
    fn sentences_mark_code_and_weight_and_nothing_else() {
        let said = |text: &str| super::said(text).into_string();
        assert_eq!(said("`a` moves **4** GiB"), "<code>a</code> moves <strong>4</strong> GiB");
        assert_eq!(said("<b>`x"), "&lt;b&gt;`x");
        assert_eq!(said("a ** b"), "a ** b");
    }
}
