//! Copies standard input to standard output and to files: `tee FILE...`, which goes on without
//! those that fail.
//!
//! ```text
//! cargo run --release --example tee -- one two <source >three
//! ```

use std::fs::File;
use std::process::ExitCode;

use gush::{Control, Tee};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let names: Vec<_> = std::env::args_os().skip(1).collect();
    let files = names.iter().map(File::create).collect::<Result<Vec<_>, _>>()?;
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let mut on_loss = |loss: &gush::Loss| {
        let name = match loss.target.checked_sub(1) {
            None => "standard output".into(),
            Some(at) => names[at].to_string_lossy(),
        };
        eprintln!("tee: {name}: {:?} after {} bytes", loss.failure, loss.delivered_bytes);
        Control::Continue
    };
    let tee = Tee::new(&input).to(&output).on_loss(&mut on_loss).sees_hang_ups();
    let report = files.iter().fold(tee, |tee, file| tee.to(file)).run()?;
    let is_whole = report.is_complete && report.targets.iter().all(|to| to.failure.is_none());
    Ok(ExitCode::from(u8::from(!is_whole)))
}
