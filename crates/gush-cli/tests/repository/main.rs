//! The repository besides the code: documents, packages, commands in documents.

#[path = "../common/mod.rs"]
mod common;

mod documents;
mod packages;
mod readme;
