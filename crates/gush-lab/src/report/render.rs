//! From data to HTML: templates, the policy that keeps the page silent, files inside the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use minijinja::{Environment, Value, context};
use sha2::{Digest, Sha256};

use super::page::{Download, Page};
use crate::model::Run;
use crate::transfer;

const STYLE: &str = include_str!("templates/style.css");
const SCRIPT: &str = include_str!("templates/page.js");
const TEMPLATES: &[(&str, &str)] = &[
    ("page.html", include_str!("templates/page.html")),
    ("figure.html", include_str!("templates/figure.html")),
];

/// The page as HTML.
pub fn html(page: &Page) -> String {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("said", |text: &str| Value::from_safe_string(said(text)));
    let rendered = TEMPLATES
        .iter()
        .try_for_each(|(name, source)| environment.add_template(name, source))
        .and_then(|()| environment.get_template("page.html"))
        .and_then(|template| {
            template.render(context! { page, policy => policy(), style => STYLE, script => SCRIPT })
        });
    match rendered {
        Ok(html) => html,
        Err(error) => unreachable!("the templates are constants, drawn by every test: {error:#}"),
    }
}

/// Nothing may be loaded from anywhere; of styles and scripts only our own, by their hashes.
fn policy() -> String {
    let hash = |text: &str| BASE64.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// A sentence as HTML: everything escaped, then `code` and **weight** marked.
fn said(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    let coded = marked(&escaped, "`", "code");
    marked(&coded, "**", "strong")
}

/// Text between two `mark`s becomes an element; a mark without a second one stays.
fn marked(text: &str, mark: &str, element: &str) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let mut html = String::with_capacity(text.len());
    for (index, part) in parts.iter().enumerate() {
        let closed = index + 1 < parts.len();
        match (index % 2, closed) {
            (1, true) => html.push_str(&format!("<{element}>{part}</{element}>")),
            (1, false) => html.push_str(&format!("{mark}{part}")),
            _ => html.push_str(part),
        }
    }
    html
}

/// A file as an address that needs nothing from outside.
pub fn data_uri(media_type: &str, content: &[u8]) -> String {
    format!("data:{media_type};base64,{}", BASE64.encode(content))
}

/// Every raw sample, for programs: as `gush lab export` writes them.
pub fn downloads(runs: &[&Run]) -> Vec<Download> {
    if runs.is_empty() {
        return Vec::new();
    }
    let runs: Vec<Run> = runs.iter().copied().cloned().collect();
    let rows = runs.iter().flat_map(transfer::csv_rows);
    let csv: String = std::iter::once(transfer::CSV_HEADER.to_owned())
        .chain(rows)
        .map(|row| row + "\n")
        .collect();
    let download = |name: &str, label: &str, media_type: &str, content: &str| Download {
        name: name.to_owned(),
        label: label.to_owned(),
        href: data_uri(media_type, content.as_bytes()),
    };
    vec![
        download(
            "gush-lab.json",
            "Runs and samples as JSON",
            "application/json",
            &dense(&transfer::json(&runs)),
        ),
        download("gush-lab.csv", "Samples as CSV", "text/csv", &csv),
    ]
}

/// JSON without its line ends and indentation, neither of which a string in it can hold.
fn dense(json: &str) -> String {
    json.lines().map(str::trim_start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_mark_code_and_weight_and_nothing_else() {
        assert_eq!(said("`a` moves **4** GiB"), "<code>a</code> moves <strong>4</strong> GiB");
        assert_eq!(said("<b>`x"), "&lt;b&gt;`x");
        assert_eq!(said("a ** b"), "a ** b");
    }

    #[test]
    fn the_policy_allows_no_address() {
        let policy = policy();
        assert!(policy.starts_with("default-src 'none';"));
        assert!(!policy.contains("http") && !policy.contains("unsafe"));
    }
}
