//! The calls by which a move would change its caller's descriptors, looked for where it must make none.

use std::sync::{Arc, Mutex};

use gush::faults::{Plan, Verdict};
use gush::{Advice, Call, Control, Mover, Progress, Tuning};

use crate::common::{Source, SourceKind, Target, TargetKind, is_root};

/// What is called by a move of some bytes.
fn calls(to: TargetKind, advice: Advice, is_watched: bool) -> Vec<Call> {
    let source = Source::new(SourceKind::File, b"some bytes", 1, false).expect("a source");
    let target = Target::new(to, b"", 2, false).expect("a target");
    let made = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&made);
    let _guard = Plan::new(move |call, _| {
        seen.lock().expect("the calls").push(call);
        Verdict::Go
    })
    .install();
    let mut go_on = |_: &Progress| Control::Continue;
    let mover = Mover::new(&source.fd, &target.fd).tuning(Tuning::default().advice(advice));
    let mover = if is_watched { mover.observe(&mut go_on) } else { mover };
    mover.run().expect("a move");
    made.lock().expect("the calls").clone()
}

#[test]
fn flags_are_set_on_watched_sockets_only_and_advice_is_given_where_asked_for() {
    for &to in TargetKind::ALL {
        if to == TargetKind::Block && !is_root() {
            continue;
        }
        let unwatched = calls(to, Advice::None, false);
        assert!(!unwatched.contains(&Call::SetFlags), "{to:?}: {unwatched:?}");
        assert!(!unwatched.contains(&Call::Fadvise), "{to:?}: {unwatched:?}");
        assert!(calls(to, Advice::Sequential, false).contains(&Call::Fadvise), "{to:?}");
        let is_socket = matches!(
            to,
            TargetKind::UnixStream
                | TargetKind::Tcp
                | TargetKind::Seqpacket
                | TargetKind::UnixDatagram
                | TargetKind::Udp
        );
        assert_eq!(calls(to, Advice::None, true).contains(&Call::SetFlags), is_socket, "{to:?}");
    }
}
