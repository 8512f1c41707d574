//! Promises that several commands keep.

#[path = "../common/mod.rs"]
mod common;

mod closed_ends;
mod completions;
mod denied_calls;
mod help;
mod ignored_children;
mod leases;
mod remedies;
mod sandbox;
mod shared_flags;
mod shipped;
mod signals;
mod unread_messages;
mod whole_datagrams;
mod words;
