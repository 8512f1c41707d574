//! `gush pipe read`.

use std::process::ExitCode;

use gush_lab::Error;
use gush_lab::pipe::{ReadOptions, Reading, Waiting, closed, read};

use crate::console::Console;

/// Whether only failures are reported.
fn is_silent(options: &ReadOptions) -> bool {
    options.shared.quiet || options.csv
}

pub fn run(options: &ReadOptions) -> ExitCode {
    let console = Console::new("gush pipe read");
    let reading = match measure(options, &console) {
        Ok(answer) => answer,
        Err(error) => return console.fail(error),
    };
    let line = if options.csv { csv(options, &reading) } else { reading.to_string() };
    let printed = console.page(format!("{line}\n").as_bytes());
    match reading.cut_short(options.bytes()) {
        Some(why) if options.bytes.is_some() => console.fail(why),
        Some(note) => {
            if !is_silent(options) {
                console.say(note);
            }
            printed
        }
        None => printed,
    }
}

fn measure(options: &ReadOptions, console: &Console) -> Result<Reading, Error> {
    options.check()?;
    if gush_process::was_closed(0) {
        return Err(closed("standard input"));
    }
    options.shared.pin()?;
    if options.shared.verbose {
        // What is used, also where an option is left out.
        console.say(format_args!(
            "buffer: {} bytes, bytes: {}, waiting: {:?}, pattern: {:?}",
            options.buffer_bytes(),
            options.bytes(),
            options.shared.waiting().unwrap_or_default(),
            options.shared.pattern
        ));
    }
    let silent = is_silent(options);
    let mut say = |note: &str| {
        if !silent {
            console.say(note);
        }
    };
    read(options, &rustix::stdio::stdin(), &mut say)
}

/// The published program's columns in order; columns that only the writer knows are 0.
fn csv(options: &ReadOptions, reading: &Reading) -> String {
    let waiting = options.shared.waiting();
    let flags = [
        matches!(waiting, Some(Waiting::Spin | Waiting::SpinPoll)),
        matches!(waiting, Some(Waiting::Poll | Waiting::SpinPoll)),
        options.shared.huge_page,
        options.shared.check_huge_page,
        false,
        options.splice,
        options.gift,
        options.shared.lock_memory,
        options.shared.dont_touch_pages,
        false,
    ];
    let flags: Vec<&str> = flags.iter().map(|&flag| if flag { "1" } else { "0" }).collect();
    format!(
        "{:.6},{},{},{},{}",
        reading.gib_per_s(),
        reading.bytes,
        reading.buffer_bytes,
        reading.pipe_bytes.unwrap_or(0),
        flags.join(",")
    )
}
