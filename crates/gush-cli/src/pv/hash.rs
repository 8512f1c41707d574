//! Checksums of the bytes that pass.

use std::fmt::Write as _;

use clap::ValueEnum;
use sha2::Digest as _;
use xxhash_rust::xxh3::Xxh3;

/// A checksum by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    Blake3,
    // The 64-bit variant.
    Xxh3,
    Sha256,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Xxh3 => "xxh3",
            Self::Sha256 => "sha256",
        }
    }

    pub fn start(self) -> Hasher {
        match self {
            Self::Blake3 => Hasher::Blake3(Box::default()),
            Self::Xxh3 => Hasher::Xxh3(Box::default()),
            Self::Sha256 => Hasher::Sha256(Box::default()),
        }
    }
}

#[derive(Clone)]
pub enum Hasher {
    Blake3(Box<blake3::Hasher>),
    Xxh3(Box<Xxh3>),
    Sha256(Box<sha2::Sha256>),
}

impl Hasher {
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => drop(hasher.update(bytes)),
            Self::Xxh3(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// In hexadecimal.
    pub fn text(&self) -> String {
        match self {
            Self::Blake3(hasher) => hasher.finalize().to_string(),
            Self::Xxh3(hasher) => format!("{:016x}", hasher.digest()),
            Self::Sha256(hasher) => {
                hasher.clone().finalize().iter().fold(String::new(), |mut text, byte| {
                    // Writing into a `String` cannot fail.
                    let _ = write!(text, "{byte:02x}");
                    text
                })
            }
        }
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_published_ones() {
        for (algorithm, idle, of_abc) in [
            (
                Algorithm::Blake3,
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
            (Algorithm::Xxh3, "2d06800538d394c2", "78af5f94892f3950"),
            (
                Algorithm::Sha256,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            let mut hasher = algorithm.start();
            assert_eq!(hasher.text(), idle);
            hasher.add(b"a");
            hasher.add(b"bc");
            assert_eq!(hasher.text(), of_abc);
        }
    }
}
