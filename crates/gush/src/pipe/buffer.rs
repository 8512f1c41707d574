//! The buffer that a writer hands out to be filled.

use crate::pages::{Pages, Strip};

/// Memory to be filled in place and committed.
///
/// ```compile_fail,E0382
/// # let (_reader, writer) = std::io::pipe().unwrap();
/// let mut writer = gush::pipe::Writer::new(writer).unwrap();
/// let mut buffer = writer.buffer().unwrap();
/// writer.commit(buffer, 4096).unwrap();
/// buffer[0] = 1; // lent pages cannot be written: the buffer has moved
/// ```
#[derive(Debug)]
pub struct Buffer {
    pub(super) strip: Strip,
    len_bytes: usize,
}

impl Buffer {
    /// The next `len_bytes` that can be written.
    pub(super) fn of(strip: Strip, len_bytes: usize) -> Self {
        Self { len_bytes: len_bytes.min(strip.rest().len()), strip }
    }
}

impl AsRef<Pages> for Buffer {
    fn as_ref(&self) -> &Pages {
        self.strip.pages()
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.strip.rest()[..self.len_bytes]
    }
}

impl std::ops::DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.strip.rest_mut()[..self.len_bytes]
    }
}
