//! From data to HTML: templates, the policy that keeps the page silent, files inside the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use minijinja::{Environment, Value, context};
use sha2::{Digest, Sha256};

use super::page::{Download, Page};
use crate::model::Run;

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

/// Every raw sample, for programs: as JSON, which can be imported and reported again, and as CSV.
pub fn downloads(runs: &[&Run]) -> Vec<Download> {
    if runs.is_empty() {
        return Vec::new();
    }
    let json = serde_json::to_vec_pretty(runs).unwrap_or_default();
    vec![
        Download {
            name: "gush-lab.json".to_owned(),
            label: "Runs and samples as JSON".to_owned(),
            href: data_uri("application/json", &json),
        },
        Download {
            name: "gush-lab.csv".to_owned(),
            label: "Samples as CSV".to_owned(),
            href: data_uri("text/csv", csv(runs).as_bytes()),
        },
    ]
}

fn csv(runs: &[&Run]) -> String {
    let mut text =
        "run,machine,suite,case,round,gib_per_s,wall_s,user_s,system_s,bytes,facts\n".to_owned();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for run in runs {
        for sample in &run.samples {
            let measured = &sample.measured;
            let facts: Vec<String> =
                measured.facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let fields = [
                run.id.clone(),
                run.machine.id.clone(),
                sample.suite.clone(),
                sample.case.clone(),
                sample.round.to_string(),
                number(measured.gib_per_s),
                number(measured.wall_s),
                number(measured.user_s),
                number(measured.system_s),
                measured.bytes.to_string(),
                facts.join(";"),
            ];
            text.push_str(&fields.map(|field| quoted(&field)).join(","));
            text.push('\n');
        }
    }
    text
}

/// A field as RFC 4180 has it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
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

    #[test]
    fn fields_are_quoted_when_they_must_be() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
