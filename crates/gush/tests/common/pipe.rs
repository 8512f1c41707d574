//! Bytes through a pipe, by the writer that the library chooses.

use std::io::{Read, Write};

use gush::pipe::{Technique, Writer};

use super::{noise, within};

/// Sends some bytes by the writer chosen here, reads them, and answers the technique.
pub fn round_trip(len: usize) -> Technique {
    within(60, "a round trip", move || {
        let (mut from, to) = std::io::pipe().expect("pipe");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            from.read_to_end(&mut got).map(|_| got)
        });
        let mut writer = Writer::new(to).expect("writer");
        let sent = noise(3, len);
        let mut buffer = writer.buffer().expect("buffer");
        let first = len.min(buffer.len());
        buffer[..first].copy_from_slice(&sent[..first]);
        writer.commit(buffer, first).expect("commit");
        writer.write_all(&sent[first..]).expect("write");
        writer.flush().expect("flush");
        let technique = writer.technique();
        drop(writer);
        assert!(reader.join().expect("reader").expect("read") == sent);
        technique
    })
}
