//! The glyph of each byte value under `-v`, `-T` and `-vE`: the byte itself, `^X`, `M-x`, `M-^X`,
//! or `$` and a line end.

use super::text::Style;

/// Bytes examined together: a block of plain bytes is copied in one call.
const BLOCK_BYTES: usize = 32;
const MOST_GLYPH_BYTES: usize = 4;

/// The glyphs of all byte values.
#[derive(Debug)]
pub struct Glyphs {
    shapes: [[u8; MOST_GLYPH_BYTES]; 256],
    lengths: [u8; 256],
    identity: bool,
}

impl Glyphs {
    pub fn new(style: Style) -> Self {
        let mut glyphs = Self {
            shapes: [[0; MOST_GLYPH_BYTES]; 256],
            lengths: [1; 256],
            identity: !style.nonprinting && !style.tabs,
        };
        for byte in 0..=u8::MAX {
            let shape = &mut glyphs.shapes[usize::from(byte)];
            shape[0] = byte;
            let shown_as_is = match byte {
                b'\t' => !style.tabs,
                b'\n' | b' '..=b'~' => true,
                _ => !style.nonprinting,
            };
            if !shown_as_is {
                glyphs.lengths[usize::from(byte)] = caret(byte, shape);
            }
        }
        // Without -v this cannot be a glyph: a line end also turns a carriage return before it into
        // `^M`.
        if style.ends && style.nonprinting {
            glyphs.shapes[usize::from(b'\n')][..2].copy_from_slice(b"$\n");
            glyphs.lengths[usize::from(b'\n')] = 2;
        }
        glyphs
    }

    /// Appends the glyphs of `bytes`; `out` grows by at most four bytes for each.
    pub fn append(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.identity {
            out.extend_from_slice(bytes);
            return;
        }
        for block in bytes.chunks(BLOCK_BYTES) {
            // Without an early exit, so that the compiler can test many bytes at a time.
            if block.iter().fold(true, |plain, &byte| plain & (b' '..=b'~').contains(&byte)) {
                out.extend_from_slice(block);
            } else {
                self.append_block(block, out);
            }
        }
    }

    fn append_block(&self, block: &[u8], out: &mut Vec<u8>) {
        let mut shown = [0; (BLOCK_BYTES + 1) * MOST_GLYPH_BYTES];
        let mut shown_bytes = 0;
        for &byte in block {
            // All four bytes: the next glyph overwrites the surplus. As an array, since a slice may
            // be copied by a call of memmove.
            if let Some(place) = shown[shown_bytes..].first_chunk_mut() {
                *place = self.shapes[usize::from(byte)];
            }
            shown_bytes += usize::from(self.lengths[usize::from(byte)]);
        }
        out.extend_from_slice(&shown[..shown_bytes]);
    }
}

/// Puts the caret notation of `byte` into `shape`, and returns its length.
fn caret(byte: u8, shape: &mut [u8; MOST_GLYPH_BYTES]) -> u8 {
    let mut length = 0;
    let mut push = |byte| {
        shape[usize::from(length)] = byte;
        length += 1;
    };
    if byte >= 128 {
        push(b'M');
        push(b'-');
    }
    match byte & 127 {
        control @ 0..32 => {
            push(b'^');
            push(control + 64);
        }
        127 => {
            push(b'^');
            push(b'?');
        }
        printable => push(printable),
    }
    length
}
