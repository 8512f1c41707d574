//! The page in its frame: the policy that keeps the page silent, style and script, files inside the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use super::page::{Download, Page};
use crate::model::Run;
use crate::transfer;

const STYLE: &str = include_str!("templates/style.css");
const SCRIPT: &str = include_str!("templates/page.js");

/// The page as HTML.
pub fn html(page: &Page) -> String {
    super::html::page(page, &policy(), STYLE, SCRIPT).0
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

/// JSON without line ends and indentation, neither of which a string in it can hold.
fn dense(json: &str) -> String {
    json.lines().map(str::trim_start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_no_address() {
        let policy = policy();
        assert!(policy.starts_with("default-src 'none';"));
        assert!(!policy.contains("http") && !policy.contains("unsafe"));
    }
}
