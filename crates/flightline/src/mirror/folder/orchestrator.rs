//! An orchestrator's folder: an index beside the files, and those that were archived apart from them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use flightline_core::dialect::Json;
use flightline_core::dialect::orchestrator::{
    ARCHIVE, FOLDER, INDEX_FILE, id_of, is_document, read_index, write_index,
};
use flightline_core::{CheckpointId, Time};
use flightline_store::CrashPoints;
use flightline_workspace::beneath::{Dir, Replacing};

use super::{FileContent, MirrorFolder, PRIVATE};
use crate::dialect::orchestrator::files::{index, packed};
use crate::dialect::{ExportedDocuments, Outgoing};
use crate::mirror::MirrorNotice;

/// Returns the place of the folder: in the state folder, not among the files of the work.
pub(super) fn place() -> PathBuf {
    PathBuf::from(FOLDER.rsplit('/').next().unwrap_or(FOLDER))
}

impl MirrorFolder {
    /// An index that another program wrote says only where files are: it is written anew. One that contradicts the
    /// files is reported, and one that is no index is kept beside.
    pub(super) fn compare_index(&self, now: Time, said: &mut Vec<MirrorNotice>) {
        let bytes = match self.look(INDEX_FILE) {
            Ok(FileContent::Foreign { bytes, .. }) => bytes,
            Ok(FileContent::Ours | FileContent::Missing) => return,
            Err(error) => {
                said.push(MirrorNotice::Trouble(format!(
                    "{}/{INDEX_FILE} is left alone: {error}",
                    self.name
                )));
                return;
            }
        };
        self.look_again();
        let entries = std::str::from_utf8(&bytes).map(read_index);
        let settled = match entries {
            Ok(Ok(entries)) => {
                said.extend(self.missing(&entries));
                self.remember(INDEX_FILE, &bytes)
            }
            // Another program may still be writing it.
            Ok(Err(_)) | Err(_) if !self.is_settled(INDEX_FILE, now) => Ok(()),
            Ok(Err(_)) | Err(_) => self.keep_beside(INDEX_FILE, INDEX_FILE).map(|kept| {
                let line = format!(
                    "{0}/{INDEX_FILE} is no index; it is kept as {0}/{kept}",
                    self.name
                );
                said.push(MirrorNotice::Trouble(line));
            }),
        };
        if let Err(error) = settled {
            said.push(MirrorNotice::Trouble(format!(
                "{}/{INDEX_FILE}: {error}",
                self.name
            )));
        }
    }

    /// Returns a notice for each document that an index lists and that is not there.
    fn missing(&self, entries: &[Json]) -> Vec<MirrorNotice> {
        let files = documents_in(&self.root, &self.place);
        let there: BTreeSet<&String> = files.iter().map(|(_, key)| key).collect();
        let ids = entries.iter().map(|entry| entry.word("id"));
        let gone = ids.filter(|id| !there.contains(&key(id)));
        gone.map(|id| {
            MirrorNotice::Trouble(format!(
                "{}/{INDEX_FILE} lists {id}, which is not there",
                self.name
            ))
        })
        .collect()
    }

    /// Writes a checkpoint's file: among the others, or among those that were archived. Wherever else it
    /// was, it leaves then.
    pub(super) fn write_checkpoint(
        &self,
        document: &Outgoing,
        now: Time,
        steps: &CrashPoints,
    ) -> io::Result<()> {
        match document.file.strip_prefix(&format!("{ARCHIVE}/")) {
            Some(file) => {
                let folder = self.root.make(self.place.join(ARCHIVE), 0o700)?;
                let bytes = packed(document).map_err(io::Error::other)?;
                folder.put(file, bytes, Replacing::Yes, PRIVATE)?;
                steps.step();
                self.leave(&document.of, None)
            }
            None => {
                self.write_one(document, now, steps)?;
                self.leave_archive(&document.of)?;
                self.leave(&document.of, Some(&document.file))
            }
        }
    }

    /// Removes our files of a checkpoint, but for this one.
    fn leave(&self, of: &str, but: Option<&str>) -> io::Result<()> {
        for (file, key) in documents_in(&self.root, &self.place) {
            if key == of && Some(file.as_str()) != but {
                self.retire(&file)?;
            }
        }
        Ok(())
    }

    /// Removes the archived files of a checkpoint.
    fn leave_archive(&self, of: &str) -> io::Result<()> {
        let archive = self.place.join(ARCHIVE);
        for (file, key) in documents_in(&self.root, &archive) {
            if key == of {
                self.root.remove(archive.join(file))?;
            }
        }
        Ok(())
    }

    /// Removes the files of deleted checkpoints, and brings the index up to date with the remaining files.
    pub(super) fn tidy(
        &self,
        given: &ExportedDocuments,
        now: Time,
        steps: &CrashPoints,
        said: &mut Vec<MirrorNotice>,
    ) {
        if let Err(error) = self.try_tidy(given, now, steps) {
            said.push(MirrorNotice::Trouble(format!(
                "{}/{INDEX_FILE} is not up to date: {error}",
                self.name
            )));
        }
    }

    fn try_tidy(
        &self,
        given: &ExportedDocuments,
        now: Time,
        steps: &CrashPoints,
    ) -> io::Result<()> {
        let gone: BTreeSet<&String> = given.gone.iter().collect();
        for (file, key) in documents_in(&self.root, &self.place) {
            if gone.contains(&key) {
                self.retire(&file)?;
            }
        }
        for (file, key) in documents_in(&self.root, &self.place.join(ARCHIVE)) {
            if gone.contains(&key) {
                self.root.remove(self.place.join(ARCHIVE).join(file))?;
            }
        }
        let live = given.documents.iter();
        let mut written = Vec::new();
        for document in live.filter(|document| !document.file.contains('/')) {
            let seen = self.root.entry(self.place.join(&document.file))?;
            written.extend(
                seen.filter(|seen| seen.is_file())
                    .map(|seen| (document, seen.size)),
            );
        }
        let before = self.shadow(INDEX_FILE);
        let before = before.and_then(|bytes| String::from_utf8(bytes).ok());
        let before = before.and_then(|text| read_index(&text).ok());
        let before = before.unwrap_or_default();
        if written.is_empty() && before.is_empty() {
            return Ok(());
        }
        let folder = self.root.make(&self.place, 0o700)?;
        let entries = index(&written, &before, &folder)
            .map_err(|refusal| io::Error::other(refusal.message))?;
        let document = Outgoing {
            file: INDEX_FILE.to_owned(),
            of: "index".to_owned(),
            text: write_index(&entries),
            replaces: None,
        };
        self.write_one(&document, now, steps)
    }
}

/// The files of checkpoints in a folder, by their names, and the id of the checkpoint of each.
fn documents_in(root: &Dir, folder: &Path) -> Vec<(String, String)> {
    let names = root.names_in(folder).unwrap_or_default().into_iter();
    names
        .filter(|name| is_document(name))
        .filter_map(|name| {
            let key = key(id_of(&name)?.0);
            Some((name, key))
        })
        .collect()
}

/// The id of the checkpoint that a document's id stands for.
fn key(id: &str) -> String {
    let id = format!("{}{id}", CheckpointId::PREFIX);
    id.parse::<CheckpointId>().map_or(id, |id| id.to_string())
}
