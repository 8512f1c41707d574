//! The least program around the engine: `copy SRC DST [METHOD [THREADS]]`, and a report.

use std::error::Error;
use std::fs::File;

use gush::{Choice, Mover};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, more @ ..] = words.as_slice() else {
        return Err("usage: copy SRC DST [METHOD [THREADS]]".into());
    };
    let choice: Choice = more.first().map_or(Ok(Choice::Auto), |name| name.parse())?;
    let threads = more.get(1).map_or(Ok(0), |count| count.parse())?;
    let (source, target) = (File::open(source)?, File::create(target)?);
    let report = Mover::new(&source, &target).method(choice).threads(threads).run()?;
    println!("{}", report.explain());
    Ok(())
}
