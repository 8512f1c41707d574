//! The two ends of a move: the kinds of the descriptors.

use std::os::fd::BorrowedFd;

use crate::access;
use crate::endpoint::{Endpoint, Kind};
use crate::fault::Fault;
use crate::port::Side;

/// Source and target, as they were when the move began.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) source: Endpoint<'a>,
    pub(super) target: Endpoint<'a>,
}

impl<'a> Ends<'a> {
    pub(super) fn look(source: BorrowedFd<'a>, target: BorrowedFd<'a>) -> Result<Self, Fault> {
        Ok(Self {
            source: Endpoint::look_as(source, Side::Source)?,
            target: Endpoint::look_as(target, Side::Target)?,
        })
    }

    /// Ends that the caller has looked at.
    pub(super) fn known((source, target): (Endpoint<'a>, Endpoint<'a>)) -> Result<Self, Fault> {
        // Known ends are checked, too: the caller may have opened the file for the other direction.
        access::check(&source, Side::Source)?;
        access::check(&target, Side::Target)?;
        Ok(Self { source, target })
    }

    pub(super) fn fd(&self, side: Side) -> BorrowedFd<'a> {
        match side {
            Side::Source => self.source.fd(),
            Side::Target => self.target.fd(),
        }
    }

    /// From file to file, at offsets: holes, space and shared blocks are to be thought of.
    pub(super) fn are_both_files(&self) -> bool {
        self.source.kind() == Kind::File
            && self.target.kind() == Kind::File
            // With O_APPEND everything goes to the end, where no hole can be left.
            && self.target.takes_offsets()
    }
}
