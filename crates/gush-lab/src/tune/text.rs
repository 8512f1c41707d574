//! The profile as text: for people first, and for the engine.

use std::fmt::Write as _;

use gush::Host;

use super::{Comparison, Findings};

/// A profile of these rules for this machine, without a word about where they come from.
pub(super) fn of_rules(rules: &str) -> String {
    format!("format = 1\n{}{rules}", machine(&Host::here(), None))
}

/// The whole profile, with the measurements beside every rule.
pub(super) fn of(findings: &Findings) -> String {
    let mut text = format!(
        "# What gush measured on this machine, for its own use: gush tune writes it, --no-profile ignores\n\
         # it, and removing this file undoes it. A rule puts a method first where the engine's table\n\
         # permits it, and sets sizes; the first rule that fits counts. It may be edited.\n\
         #\n\
         # Beside every rule: the speed by the engine's table and by the rule, the ratio of both with its\n\
         # 95 % interval, the processor time as a part of the table's, and how often both were measured in turn. Only\n\
         # rules whose whole interval lies above {:.2} are here, for sizes between those measured, that were shown to do no\n\
         # harm from a cold source, over content, or in a trickle.\n\n\
         format = 1\n\
         gush = {:?}\n\
         made = {:?}\n",
        1.0 + crate::stats::MARGIN,
        env!("CARGO_PKG_VERSION"),
        findings.made.to_string(),
    );
    if let Some(bytes) = findings.small_message_bytes() {
        text += "\n# Messages between sockets up to this size, in bytes, are no slower read and written than\n\
                 # spliced, and hold no pipe; gush link goes by it:\n";
        for message in &findings.messages {
            // Writing into a `String` cannot fail, here and below.
            let _ = writeln!(
                text,
                "# {:>6}: {:.1} us by read and write, {:.1} us by splice",
                message.bytes, message.read_write_us, message.splice_us
            );
        }
        let _ = writeln!(text, "small_message_bytes = {bytes}");
    }
    let _ = write!(text, "\n{}", machine(&findings.host, findings.processor_name.as_deref()));
    let mut changes = 0;
    for answer in &findings.answers {
        let Some((setting, comparison)) = answer.change() else { continue };
        changes += 1;
        let ratio = comparison.ratio;
        let _ = write!(
            text,
            "\n# {}: {} {:.2} GiB/s, {setting} {:.2} GiB/s: {:.2} times [{}]{}, {} rounds\n{}{}{}",
            answer.question,
            answer.table,
            comparison.before_gib_per_s,
            comparison.after_gib_per_s,
            ratio.value,
            ratio.around(2),
            processor_time(&comparison),
            comparison.rounds,
            if answer.narrowed {
                "# (elsewhere in its class it is not, or not surely)\n"
            } else {
                ""
            },
            answer.rule_for,
            setting.lines(),
        );
    }
    if changes == 0 {
        text += match findings.had_no_time() {
            true => "\n# No rule: there was too little time to answer any question.\n",
            false => {
                "\n# No rule: nothing that was tried is surely faster here than the engine's table.\n"
            }
        };
    }
    text += "\n# Measured, and left to the table:\n";
    for answer in findings.answers.iter().filter(|answer| answer.change().is_none()) {
        let why = answer.skipped.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let _ = writeln!(text, "# {} ({}): {}{why}", answer.question, answer.class(), answer.table);
    }
    text
}

/// The processor time of the second way as a part of the first one's.
fn processor_time(comparison: &Comparison) -> String {
    comparison.processor.map_or_else(String::new, |processor| {
        format!(", {:.2} of the processor time", processor.value.recip())
    })
}

fn machine(host: &Host, processor_name: Option<&str>) -> String {
    let name = processor_name.map_or(String::new(), |name| format!("  # {name}"));
    format!(
        "[machine]\nkernel = {:?}\nprocessor = {:?}{name}\nprocessors = {}\nallowed = {:?}\nquota = {:?}\n",
        host.kernel, host.processor, host.processors, host.allowed, host.quota
    )
}
