//! Compresses and unfolds files, from bytes to bytes. The output is bounded: a small file that would unfold into a very
//! large one is refused.

use std::io::{self, Read, Write};

use serde_json::json;

use crate::dialect::text_of;
use crate::dialect::unreadable::{MAX_BYTES, Unreadable};
use crate::error::{Code, Refusal};
use crate::redact::shown;

/// Zstandard frames that need more memory than 2^23 bytes (8 MiB) to unfold are refused.
const ZSTD_WINDOW_LOG: u32 = 23;
const ZSTD_LEVEL: i32 = 3;

words! {
    /// The compression of a file.
    #[derive(Default)]
    pub enum Compression {
        /// The file is not compressed.
        #[default]
        None = "none",
        /// The file is a gzip file, as seed D's store writes it.
        Gzip = "gzip",
        /// The file consists of LZ4 frames.
        Lz4 = "lz4",
        /// The file consists of Zstandard frames, written at level 3.
        Zstd = "zstd",
    }
}

/// Bytes that cannot be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    #[error("it unfolds into more than {max} bytes")]
    TooLarge { max: usize },
    /// The bytes are not in the format that they claim, or not all of them.
    #[error("its {} data is damaged: {cause}", .compression.as_str())]
    Damaged {
        compression: Compression,
        #[source]
        cause: io::Error,
    },
}

impl Compression {
    /// Returns the end of a compressed file's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Lz4 => ".lz4",
            Self::Zstd => ".zst",
        }
    }

    /// Returns the compression of a file, by the end of its name.
    pub fn named(file: &str) -> Self {
        let all = Self::ALL.into_iter().filter(|it| *it != Self::None);
        let found = all.into_iter().find(|it| file.ends_with(it.suffix()));
        found.unwrap_or(Self::None)
    }

    /// Returns the compression of these bytes, by their beginning. No JSON text begins so.
    pub fn detect(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Compresses. The same bytes give the same bytes. Fails when the compressor runs out of memory.
    pub fn pack(self, bytes: &[u8]) -> Result<Vec<u8>, CompressError> {
        let packed = || -> io::Result<Vec<u8>> {
            match self {
                Self::None => Ok(bytes.to_vec()),
                Self::Gzip => {
                    let mut packer =
                        flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                    packer.write_all(bytes)?;
                    packer.finish()
                }
                Self::Lz4 => {
                    // Without the checksum, damage inside a block can go unnoticed.
                    let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
                    let mut packer =
                        lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
                    packer.write_all(bytes)?;
                    packer.finish().map_err(io::Error::other)
                }
                Self::Zstd => {
                    let mut packer = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                    packer.include_checksum(true)?;
                    packer.write_all(bytes)?;
                    packer.finish()
                }
            }
        };
        packed().map_err(|cause| self.damaged(cause))
    }

    /// Unfolds at most `max` bytes. Refuses more than that, and bytes that are damaged, cut short, or followed by others.
    pub fn unpack(self, bytes: &[u8], max: usize) -> Result<Vec<u8>, CompressError> {
        match self {
            Self::None => all_of(bytes, max),
            Self::Gzip => all_of(flate2::read::MultiGzDecoder::new(bytes), max),
            Self::Lz4 => Self::unpack_lz4(bytes, max),
            Self::Zstd => {
                let mut unpacker = zstd::stream::read::Decoder::with_buffer(bytes)
                    .map_err(|cause| self.damaged(cause))?;
                unpacker
                    .window_log_max(ZSTD_WINDOW_LOG)
                    .map_err(|cause| self.damaged(cause))?;
                all_of(unpacker, max)
            }
        }
        .map_err(|stop| match stop {
            Stop::TooLarge => CompressError::TooLarge { max },
            Stop::Damaged(cause) => self.damaged(cause),
        })
    }

    /// The LZ4 reader takes a frame whose end is missing for a whole one, and stops after the first.
    fn unpack_lz4(bytes: &[u8], max: usize) -> Result<Vec<u8>, Stop> {
        let mut unpacker = lz4_flex::frame::FrameDecoder::new(Watched {
            rest: bytes,
            starved: false,
        });
        let unpacked = all_of(&mut unpacker, max)?;
        let Watched { rest, starved } = unpacker.get_ref();
        match (starved, rest.is_empty()) {
            (false, true) => Ok(unpacked),
            (true, _) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends early").into()),
            (false, false) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "more follows its end").into())
            }
        }
    }

    const fn damaged(self, cause: io::Error) -> CompressError {
        CompressError::Damaged {
            compression: self,
            cause,
        }
    }
}

/// The text in a document's file, compressed or not: what its bytes say counts, not its name.
pub fn unfolded(bytes: &[u8], file: &str) -> Result<String, Refusal> {
    let refused = |error: CompressError| {
        let code = match &error {
            CompressError::TooLarge { .. } => Code::TooLong,
            CompressError::Damaged { .. } => Code::Integrity,
        };
        let file = shown(file);
        Refusal::new(code, format!("cannot read `{file}`: {error}"))
            .details(json!({ "file": file }))
    };
    let unreadable = |why: Unreadable| why.refusal(file);
    match Compression::detect(bytes) {
        Compression::None => text_of(bytes).map(str::to_owned).map_err(unreadable),
        packed => {
            let bytes = packed.unpack(bytes, MAX_BYTES).map_err(refused)?;
            text_of(&bytes).map(str::to_owned).map_err(unreadable)
        }
    }
}

/// Bytes that remember whether a reader wanted more of them.
struct Watched<'a> {
    rest: &'a [u8],
    starved: bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(buffer)?;
        self.starved |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

enum Stop {
    TooLarge,
    Damaged(io::Error),
}

impl From<io::Error> for Stop {
    fn from(cause: io::Error) -> Self {
        Self::Damaged(cause)
    }
}

/// Reads everything that the reader has, if it is not more than `max`; no more than that is ever held.
fn all_of(reader: impl Read, max: usize) -> Result<Vec<u8>, Stop> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(&mut bytes)?;
    match bytes.len() > max {
        true => Err(Stop::TooLarge),
        false => Ok(bytes),
    }
}
