//! The page in its frame: the policy that keeps the page silent, its style, files inside the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use crate::model::Run;
use crate::transfer;

pub const STYLE: &str = include_str!("templates/style.css");

/// Nothing may be loaded from anywhere, and no script may run; the only style is ours, by its hash.
pub fn policy() -> String {
    format!(
        "default-src 'none'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; \
         form-action 'none'",
        BASE64.encode(Sha256::digest(STYLE))
    )
}

/// A file as an address that needs nothing from outside.
pub fn data_uri(media_type: &str, content: &[u8]) -> String {
    format!("data:{media_type};base64,{}", BASE64.encode(content))
}

/// The address of the runs as `gush lab export` writes them, in the page itself.
pub fn runs_href(runs: &[&Run]) -> Option<String> {
    if runs.is_empty() {
        return None;
    }
    let runs: Vec<Run> = runs.iter().copied().cloned().collect();
    // Strings in JSON hold no line end, so indentation can be taken off line by line.
    let dense: String = transfer::json(&runs).lines().map(str::trim_start).collect();
    Some(data_uri("application/json", dense.as_bytes()))
}
