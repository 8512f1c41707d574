//! One source on its way to one target.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use rustix::fs::{FileType, Stat};

use crate::already_copied::{self, AlreadyCopied};
use crate::error::Error;
use crate::file::Common;
use crate::metadata::Ownership;
use crate::open;
use crate::options::CopyOptions;
use crate::place::{FileId, Place, kind};
use crate::tree::Dir;
use crate::tree::partition::Others;
use crate::writers::{Claim, Writers};

/// A source, after a look at it.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) stat: &'a Stat,
    /// Open for reading: the stat is of this file.
    pub(crate) opened: Option<BorrowedFd<'a>>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(place: Place<'a>, stat: &'a Stat) -> Self {
        Self { place, stat, opened: None }
    }
}

/// Where the copy of a source goes.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) place: Place<'a>,
    /// The directory in a tree; `None` of an operand.
    pub(crate) dir: Option<&'a Arc<Dir>>,
    /// Nothing has the name, except perhaps a dangling symbolic link; or, in a dry run, the
    /// directory was not made.
    pub(crate) is_new: bool,
    /// The data is there: it was copied to this file, which needs its attributes and its place.
    pub(crate) assembled: Option<Place<'a>>,
}

impl<'a> Target<'a> {
    pub(crate) fn operand(place: Place<'a>) -> Self {
        Self { place, dir: None, is_new: false, assembled: None }
    }
}

/// One source on its way to one target.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) common: &'a Common<'a>,
    pub(crate) source: Entry<'a>,
    pub(crate) target: Target<'a>,
    /// The file at the target, if the copy writes into or replaces this file.
    pub(crate) existing: Option<Stat>,
    /// The target's name is taken, and the file there is replaced when the new file is whole.
    pub(crate) displaces: bool,
}

impl<'a> Job<'a> {
    /// Before anything is known of the target.
    pub(crate) fn new(common: &'a Common<'a>, source: Entry<'a>, target: Target<'a>) -> Self {
        Self { common, source, target, existing: None, displaces: false }
    }

    pub(crate) fn options(&self) -> &'a CopyOptions {
        self.common.options
    }

    pub(crate) fn is_in_tree(&self) -> bool {
        self.target.dir.is_some()
    }

    /// What earlier operands made; `None` in a tree.
    pub(crate) fn made_before(&self) -> Option<&'a AlreadyCopied> {
        (!self.is_in_tree()).then_some(self.common.copied)
    }

    /// Is the copy's last state needed, by a journal or to verify the copy again at the end?
    pub(crate) fn is_noted(&self) -> bool {
        (self.common.journal.is_some() || self.options().verify) && self.is_in_tree()
    }

    /// The claims, where no other name of the target may lead to the copy.
    pub(crate) fn claims(&self) -> Option<&'a Writers> {
        self.common.keeps_apart.then_some(self.common.writers)
    }

    /// Claims the file that is to hold the copy, before a byte of it is written.
    pub(crate) fn claim(&self, file: &Stat) -> Result<Option<Claim<'a>>, Error> {
        match self.claims() {
            Some(claims) if self.options().data && kind(file) == FileType::RegularFile => {
                let claim = claims.claim(FileId::of(file));
                claim.map(Some).ok_or_else(|| open::holds_a_copy(&self.target.place))
            }
            _ => Ok(None),
        }
    }

    /// As [`claim`](Self::claim), of a file that was just made, and so holds no copy.
    pub(crate) fn claim_new(&self, file: &Stat) -> Option<Claim<'a>> {
        let claims = self.claims().filter(|_| self.options().data)?;
        Some(claims.claim_new(FileId::of(file)))
    }

    /// May the target's directory give a new file an access control list?
    pub(crate) fn may_inherit_acl(&self) -> bool {
        self.target.dir.is_none_or(|dir| dir.may_give_acl())
    }

    /// Is all known of a new file that the options ask for? Its owner matters if it is kept, and
    /// its inode if other names may lead to it.
    pub(crate) fn knows_new_files(&self) -> bool {
        let CopyOptions { preserve, through_dangling, .. } = self.options();
        let is_linked_again =
            preserve.links && already_copied::may_return(self.options(), self.source.stat);
        self.is_in_tree()
            && (!preserve.owner || self.owner_of_new_files().is_some())
            && !is_linked_again
            && self.claims().is_none()
            // What is made through a dangling link may be elsewhere.
            && !through_dangling
    }

    /// The owner of new files, that of the first one, in a directory whose files are all made by
    /// this user.
    fn new_owner(&self) -> Option<&'a OnceLock<Ownership>> {
        let are_ranks = || self.common.partition.others() == Others::Working;
        let dir = self.target.dir.filter(|dir| dir.is_new || dir.is_of_user && are_ranks())?;
        Some(&dir.new_owner)
    }

    /// The owner of files that this process makes in the target's directory, if known.
    pub(crate) fn owner_of_new_files(&self) -> Option<Ownership> {
        self.new_owner()?.get().copied()
    }

    /// Takes the owner of a file just made as that of all later ones in this directory, whose group
    /// and mode nobody else can change.
    pub(crate) fn learn_owner(&self, made: &Stat) {
        if let Some(owner) = self.new_owner() {
            let _ = owner.set(Ownership::of(made));
        }
    }

    pub(crate) fn may_replace_link(&self) -> bool {
        self.options().force || self.displaces
    }
}
