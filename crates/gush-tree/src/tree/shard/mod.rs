//! One tree copied by several ranks: who copies which file, and how rank 0 learns that the others are done.
//!
//! Ranks send no messages. A hash of its inode number or path says who copies a file (`rank.rs`, `division.rs`), so each rank decides
//! alone and no list is shared. Of a large file all ranks take pieces (`parts.rs`, `taking.rs`). Every rank lists the whole tree and
//! makes the directories that it finds missing. Beside the target is a directory of state (`state.rs`): of each rank a journal, as a
//! resumed copy has one, and a report once its share is done (`share.rs`). Rank 0 waits for all reports; then it copies the files that
//! come last, gives the directories their attributes, and removes the state.

mod rank;
mod share;
mod state;

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Stat;

pub use rank::Shard;
pub use share::Share;
use state::State;
pub(super) use state::refuse_state_of_ranks;
pub use state::shards_beside;

use super::division::Seen;
use super::parts::{AfterShares, Parts};
use super::taking::{Taker, Walkers};
use super::{Extent, Operands, Walked, below_operand, dir, walk_tree};
use crate::error::Error;
use crate::events::Events;
use crate::file::{Action, Common, Done};
use crate::options::Dereference;
use crate::place::Place;

/// The pause between the first looks: ranks of one small tree end within milliseconds of each other.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause of a rank that waits while its looks are short.
const LONGEST_PAUSE_OF_SHORT_LOOKS: Duration = Duration::from_millis(20);
/// The longest pause of all, which rank 0 makes once it has told for whom it waits.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A pause is so many times as long as the look before: a look lists the state, which has three names for each announced file.
const PAUSE_PER_LOOK: u32 = 4;

/// From then on the user is told for whom rank 0 waits.
const TELLS_AFTER: Duration = Duration::from_secs(5);

/// Copies this rank's share, and, as rank 0, all that comes after the shares.
pub(super) fn copy(
    common: &Common<'_>,
    operands: &mut Operands,
    (source, source_stat): (Place<'_>, &Stat),
    target: Place<'_>,
    shard: Shard,
    events: &mut dyn Events,
) -> Result<Done, Error> {
    let state = State::open(shard, target)?;
    let follow = common.options.dereference != Dereference::Never;
    let (root, _) = dir::open_same(&source, source_stat, follow)?;
    let division = state.division((&source, source_stat), root.as_fd())?;
    state.agree_on_ranks()?;
    let (walking, mut journal) = state.begin(common, source_stat)?;
    state.retract(shard.rank())?;
    let there = (state.dir.as_fd(), &*state.shown);
    let parts = Parts::new(division, there, &journal, AfterShares::default());
    let of_share = Common { journal: Some(&journal), extent: Extent::Share(&parts), ..*common };
    let mut walkers = Walkers::of(state.dir.as_fd(), shard);
    let walked = walk_tree(&of_share, operands, (source, source_stat), (target, false), events);
    // No file is announced any more.
    drop(walking);
    let mut share = match &walked {
        Ok(Some(Walked { complete, share })) => Share { is_complete: *complete, ..*share },
        Ok(None) | Err(_) => Share {
            files: 0,
            bytes: 0,
            is_complete: false,
            seen: Seen::default(),
            divided_files: 0,
        },
    };
    let below = below_operand(common.options);
    let of_pieces = Common { options: &below, ..of_share };
    let shown = (source.shown, target.shown);
    let mut taker = Taker::new(&of_pieces, &parts, root, shown, share.is_complete);
    let taken = match &walked {
        // Rank 0 takes more while it waits.
        Ok(Some(_)) if shard.rank() == 0 => taker.take(events).map(drop),
        Ok(Some(_)) => take_all(&mut taker, &mut walkers, events),
        _ => Ok(()),
    };
    let own_bytes = share.bytes;
    share.is_complete &= taken.is_ok();
    // Rank 0 reads which pieces are done.
    let report = |taker: &Taker<'_>| {
        journal.flush()?;
        let is_complete = share.is_complete && taker.is_complete;
        let share = Share { bytes: own_bytes + taker.bytes, is_complete, ..share };
        state.report(&share).map(|()| share)
    };
    let reported = report(&taker)?;
    walked?;
    taken?;
    let ended = |complete| Done { complete, ..Done::new(Action::Directory) };
    if shard.rank() != 0 {
        return Ok(ended(reported.is_complete));
    }
    let mut shares = wait_for_reports(&state, shard.ranks(), &mut taker, events)?;
    shares[0] = report(&taker)?;
    let root = taker.into_root();
    journal.learn_made(state.made()?);
    let others_failed = !are_whole(&shares, &source, events);
    let parts = Parts::new(division, there, &journal, AfterShares::default());
    let after = after_shares(&state, &shares, &parts)?;
    let announced_files = after.announced.files;
    let parts = Parts::new(division, there, &journal, after);
    let extent = Extent::Rest { others_failed, parts: &parts };
    let of_rest = Common { journal: Some(&journal), extent, ..*common };
    let walked = walk_tree(&of_rest, operands, (source, source_stat), (target, false), events)?;
    let found_all = walked.as_ref().is_some_and(|walked| walked.share.files >= announced_files);
    let complete = walked.is_some_and(|walked| walked.complete);
    if complete && !found_all {
        let text = "changed while being copied: directories of large files are gone, which have no place in the copy";
        events.warns(&Error::refusal(source.shown, text).hinting("copy again, with --resume"));
    }
    let complete = complete && found_all;
    events.ranks_ended(&shares);
    if complete {
        // NFS removes no file, and so no directory, that this process has open.
        drop(journal);
        state.remove()?;
    } else {
        let common = Common { options: &below, ..of_rest };
        Taker::new(&common, &parts, root, shown, false).forget_void()?;
        // Whoever goes on reports anew.
        (0..shard.ranks()).try_for_each(|rank| state.retract(rank))?;
    }
    Ok(ended(complete))
}

/// Has every rank copied its share, and do the shares make up the tree? Ranks that saw different trees may have left a file to
/// each other.
fn are_whole(shares: &[Share], source: &Place<'_>, events: &mut dyn Events) -> bool {
    let is_each_complete = shares.iter().all(|share| share.is_complete);
    let owned = shares.iter().fold(0_u64, |sum, share| sum.wrapping_add(share.seen.own));
    let saw_the_same = shares.iter().all(|share| share.seen.all == owned);
    if is_each_complete && !saw_the_same {
        let text = "changed while being copied: the ranks saw different files, and may have left some to each other";
        events.warns(&Error::refusal(source.shown, text).hinting("copy again, with --resume"));
    }
    is_each_complete && saw_the_same
}

/// The large files that the ranks have announced, and the pieces that are done.
fn after_shares(
    state: &State<'_>,
    shares: &[Share],
    parts: &Parts<'_>,
) -> Result<AfterShares, Error> {
    let announced = parts.announced();
    let announced = announced.map_err(|errno| Error::os(&state.shown, "cannot list", errno))?;
    // A report tells of a divided file also where somebody has removed the file of pieces.
    let divided_files: u64 = shares.iter().map(|share| share.divided_files).sum();
    let may_miss_files = announced.files < divided_files;
    // A line a file: nobody reads so many where no file is divided.
    let done = if announced.files > 0 { state.pieces()? } else { HashSet::new() };
    Ok(AfterShares { done, announced, may_miss_files })
}

/// Waits until all ranks have reported, and takes pieces meanwhile that ranks announce late.
fn wait_for_reports(
    state: &State<'_>,
    ranks: u32,
    taker: &mut Taker<'_>,
    events: &mut dyn Events,
) -> Result<Vec<Share>, Error> {
    let began = Instant::now();
    let mut has_told = false;
    loop {
        let (mut shares, mut missing) = (Vec::new(), Vec::new());
        for rank in 0..ranks {
            match state.report_of(rank)? {
                Some(share) => shares.push(share),
                None => missing.push(rank),
            }
        }
        if missing.is_empty() {
            return Ok(shares);
        }
        let look = taker.take(events)?;
        let is_late = began.elapsed() >= TELLS_AFTER;
        if is_late && !has_told {
            events.waits_for_ranks(&missing);
            has_told = true;
        }
        let pause = until_next_look(began.elapsed(), look);
        thread::sleep(if is_late { LONGEST_PAUSE } else { pause });
    }
}

/// A part of the wait so far: nobody waits much longer than needed, and few looks are made. Long looks are made more seldom, since they keep the
/// directory of state from ranks that announce files.
fn until_next_look(waited: Duration, look: Duration) -> Duration {
    (waited / 64)
        .clamp(FIRST_PAUSE, LONGEST_PAUSE_OF_SHORT_LOOKS)
        .max(look * PAUSE_PER_LOOK)
        .min(LONGEST_PAUSE)
}

/// Takes pieces until none is free and none can come, as any rank but rank 0 does.
fn take_all(
    taker: &mut Taker<'_>,
    walkers: &mut Walkers<'_>,
    events: &mut dyn Events,
) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        // Asked first: the look behind sees all announcements made before the last walk ended.
        let may_come = walkers.any();
        let look = taker.take(events)?;
        if !may_come || taker.is_stopped() {
            return Ok(());
        }
        thread::sleep(until_next_look(began.elapsed(), look));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_looks_are_made_more_seldom() {
        let ms = Duration::from_millis;
        for (waited, look, pause) in [
            (0, 0, 1),
            (640, 0, 10),
            (60_000, 0, 20),
            (640, 2, 10),
            (640, 50, 200),
            (0, 3_000, 500),
        ] {
            assert_eq!(until_next_look(ms(waited), ms(look)), ms(pause), "{waited}, {look}");
        }
    }
}
