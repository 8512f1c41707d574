//! The report: the page as a file, and the page in a browser.

#[path = "../browser/mod.rs"]
mod browser;
#[path = "../common/mod.rs"]
mod common;

mod in_browser;
mod page;
