//! Keeps the last revision that was acknowledged, in a small file beside the database. The file is written after each
//! commit and waits for no disk: it may lag behind the database, and is never ahead of the durable state. So a database
//! that is behind it has lost data, as when its log was damaged or an old copy was put in its place.
//!
//! The file has one line per project, with a sum. It is written over in place: it is smaller than a sector, needs no new
//! name, and costs no wait at the next commit.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flightline_core::event::Hasher;
use flightline_workspace::beneath::Dir;

use crate::engine::Acknowledged;

pub(crate) const FILE: &str = "anchor";
/// The size in bytes above which the file is not ours.
const MOST: u64 = 64 * 1024;
/// The size in bytes that the file seldom exceeds: it is enough for twenty projects.
const USUAL: usize = 4_096;
/// The number of characters of a line's sum.
const SUM: usize = 16;

#[derive(Debug)]
pub(crate) struct AnchorFolder(Arc<Dir>);

impl AnchorFolder {
    pub(crate) fn new(folder: Arc<Dir>) -> Self {
        Self(folder)
    }

    /// Reads the last acknowledged revision; the error says why it cannot be read.
    pub(crate) fn read(&self, project: &str) -> Result<Option<Acknowledged>, String> {
        // Once more, should another process have been writing just then.
        self.look(project).or_else(|_| self.look(project))
    }

    fn look(&self, project: &str) -> Result<Option<Acknowledged>, String> {
        let cannot = |error: std::io::Error| format!("`{FILE}` cannot be read: {error}");
        let Some(file) = self.0.open_file(FILE).map_err(cannot)? else {
            return Ok(None);
        };
        let text = whole(&file).map_err(cannot)?;
        let mut found = None;
        for line in text.lines() {
            let last = parse(line).ok_or_else(|| {
                format!("`{FILE}`, which keeps the last acknowledged revision, is damaged")
            })?;
            if last.project == project {
                found = Some(last);
            }
        }
        Ok(found)
    }

    /// Writes the last acknowledged revision. Lines of other projects stay.
    pub(super) fn write(&self, last: &Acknowledged) -> std::io::Result<()> {
        let file = self.0.lock_file(FILE)?;
        // An unreadable file is written anew.
        let before = whole(&file).unwrap_or_default();
        let mut text = line(last);
        for other in before.lines() {
            if parse(other).is_some_and(|other| other.project != last.project) {
                text.push_str(other);
                text.push('\n');
            }
        }
        file.write_all_at(text.as_bytes(), 0)?;
        if before.len() > text.len() {
            file.set_len(text.len() as u64)?;
        }
        Ok(())
    }
}

/// Reads the text of the file, in one read as long as it is as small as it mostly is.
fn whole(file: &File) -> std::io::Result<String> {
    let mut bytes = vec![0; USUAL];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    if read == USUAL {
        let mut rest = file;
        rest.seek(SeekFrom::Start(USUAL as u64))?;
        rest.take(MOST).read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into())
}

fn line(last: &Acknowledged) -> String {
    let Acknowledged {
        project,
        history,
        rev,
        seal,
    } = last;
    let said = format!("1 {project} {history} {rev:020} {seal}");
    format!("{said} {}\n", sum(&said))
}

fn parse(line: &str) -> Option<Acknowledged> {
    let (said, found) = line.rsplit_once(' ')?;
    let words: Vec<&str> = said.split(' ').collect();
    let ["1", project, history, rev, seal] = words[..] else {
        return None;
    };
    (sum(said) == found).then_some(())?;
    Some(Acknowledged {
        project: project.to_owned(),
        history: history.to_owned(),
        rev: rev.parse().ok()?,
        seal: seal.to_owned(),
    })
}

fn sum(said: &str) -> String {
    let mut hasher = Hasher::default();
    hasher.update(said.as_bytes());
    hasher.beginning(SUM / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(project: &str, rev: u64) -> Acknowledged {
        Acknowledged {
            project: project.to_owned(),
            history: "h".to_owned(),
            rev,
            seal: "ab".repeat(16),
        }
    }

    #[test]
    fn what_was_written_is_read_for_each_project() {
        let folder = tempfile::tempdir().unwrap();
        let anchor = AnchorFolder::new(Arc::new(Dir::private(folder.path()).unwrap()));
        assert_eq!(anchor.read("one").unwrap(), None);
        for rev in [1, 999, 12] {
            anchor.write(&last("one", rev)).unwrap();
            anchor.write(&last("two", rev + 1)).unwrap();
        }
        assert_eq!(anchor.read("one").unwrap(), Some(last("one", 12)));
        assert_eq!(anchor.read("two").unwrap(), Some(last("two", 13)));
        assert_eq!(anchor.read("three").unwrap(), None);
    }
}
