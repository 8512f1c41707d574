//! `gush pipe write`.

use std::process::ExitCode;

use gush_lab::Error;
use gush_lab::pipe::{WriteOptions, closed, without_huge_pages, write};
use nix::sys::resource::{UsageWho, getrusage};

use crate::console::Console;

pub fn run(options: &WriteOptions) -> ExitCode {
    let console = Console::new("gush pipe write");
    let ended = run_or_fail(options, &console).map(|()| ExitCode::SUCCESS);
    ended.unwrap_or_else(|error| console.fail(error))
}

fn run_or_fail(options: &WriteOptions, console: &Console) -> Result<(), Error> {
    options.check()?;
    if gush_process::was_closed(1) {
        return Err(closed("standard output"));
    }
    options.shared.pin()?;
    if options.no_huge_page {
        without_huge_pages()?;
    }
    if options.shared.verbose {
        // What is used, also where an option is left out.
        console.say(format_args!(
            "technique: {}, buffer: {} bytes, bytes: {}, waiting: {:?}, pattern: {:?}",
            options.technique(),
            options.buffer_bytes(),
            options.bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string()),
            options.waiting(),
            options.shared.pattern
        ));
    }
    let silent = options.shared.quiet || options.csv;
    let mut say = |note: &str| {
        if !silent {
            console.say(note);
        }
    };
    let faults_before = page_faults();
    let bytes = write(options, &rustix::stdio::stdout(), &mut say)?;
    if options.shared.verbose {
        let faults = page_faults() - faults_before;
        console.say(format_args!("{bytes} bytes written, {faults} page faults"));
    }
    Ok(())
}

fn page_faults() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.minor_page_faults())
}
