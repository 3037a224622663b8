//! Reserves room on the disk for writes that end trouble. When nothing more can be written, the reserve is given up, and
//! locks can be released, work completed and checkpoints pruned. Nothing else is written until it is there again.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use flightline_workspace::beneath::{Dir, Replacing};

use super::opening::PAGE_SIZE;
use super::{Sqlite, classify};
use crate::engine::DiskSpace;
use crate::error::StoreError;

const SIZE: u32 = 256 * 1024;
/// The room that must be left beside the reserve when it is made again: else it would be gone with the next write.
const MARGIN: u64 = 128 * 1024;

const FILE: &str = "reserve";

pub(super) struct Reserve {
    folder: Arc<Dir>,
    /// For tests of a full disk: the most pages of the database; with the reserve given up, the reserve's pages more.
    limit: Option<u32>,
}

impl Reserve {
    pub(super) fn new(folder: Arc<Dir>, limit: Option<u32>) -> Self {
        Self { folder, limit }
    }

    fn is_there(&self) -> bool {
        let seen = self.folder.plain_entry(FILE).ok().flatten();
        seen.is_some_and(|seen| seen.size == u64::from(SIZE))
    }

    /// Fills the reserve with content that no file system can leave out or compress.
    fn make(&self) -> std::io::Result<()> {
        let mut seed = 0x2545_F491_4F6C_DD1D_u64;
        let mut content = Vec::new();
        while content.len() < SIZE as usize {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            content.extend(seed.to_le_bytes());
        }
        content.truncate(SIZE as usize);
        self.folder.put(FILE, content, Replacing::Yes, 0o600)
    }
}

impl Sqlite {
    pub(super) fn make_reserve(&mut self) -> Result<(), StoreError> {
        if self.reserve.is_there() {
            return Ok(());
        }
        let Some(free) = self.free()? else {
            return Ok(());
        };
        let full = || StoreError::Full(format!("{} KiB are free", free / 1024));
        if free < u64::from(SIZE) + MARGIN {
            return Err(full());
        }
        match self.reserve.make() {
            Ok(()) => self.hold_pages(self.reserve.limit),
            Err(error) if error.kind() == ErrorKind::StorageFull => Err(full()),
            // A folder that cannot be written says so when the store is.
            Err(_) => Ok(()),
        }
    }

    /// Gives the reserve up. Returns true when there was one.
    pub(super) fn give_up_reserve(&mut self) -> bool {
        if !self.reserve.is_there() || self.reserve.folder.remove(FILE).is_err() {
            return false;
        }
        let more = |limit: u32| limit + SIZE / PAGE_SIZE;
        self.hold_pages(self.reserve.limit.map(more)).is_ok()
    }

    pub(super) fn look_at_disk(&mut self) -> Result<Option<DiskSpace>, StoreError> {
        let log = fs::symlink_metadata(&self.log).map_or(0, |seen| seen.len());
        let has_reserve = self.reserve.is_there();
        let free = self.free()?;
        Ok(free.map(|free| DiskSpace {
            free,
            is_full: free == 0 || !has_reserve && free < u64::from(SIZE) + MARGIN,
            log,
        }))
    }

    /// The number of bytes that the disk has left for this store.
    fn free(&mut self) -> Result<Option<u64>, StoreError> {
        if let Some(limit) = self.reserve.limit {
            let pages = self.pragma("PRAGMA page_count")?;
            return Ok(Some(
                u64::from(limit).saturating_sub(pages) * u64::from(PAGE_SIZE),
            ));
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let seen = rustix::fs::statvfs(folder).ok();
        Ok(seen.map(|seen| seen.f_bavail.saturating_mul(seen.f_frsize)))
    }

    fn hold_pages(&self, limit: Option<u32>) -> Result<(), StoreError> {
        match limit {
            None => Ok(()),
            Some(pages) => self
                .connection
                .pragma_update(None, "max_page_count", pages)
                .map_err(|error| classify("cannot open the store", &error)),
        }
    }
}
