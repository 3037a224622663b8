//! Files that were put aside because they could not be taken in: `NAME.conflict`, `NAME.conflict.2` and so on.
//!
//! None is lost. One that turns out whole and newer after all, because its agent was still writing it, is taken in. The
//! others wait for a person to settle them.

use crate::Schema;
use std::io;
use std::path::Path;

use flightline_core::dialect::orchestrator::INDEX_FILE;
use flightline_core::dialect::{Dialect, DialectDocument, Json, MAX_BYTES, changes};
use flightline_core::event::sha256_hex;
use flightline_core::redact::shown;
use flightline_core::shell::shell_word;
use flightline_core::{Code, Refusal, Time};
use flightline_workspace::beneath::Replacing;
use serde::{Deserialize, Serialize};

use super::epic::DocumentOwner;
use super::intake::{BYTES_AT_ONCE, anonymous_caller, cannot_be_held};
use super::{MirrorFolder, MirrorNotice, PRIVATE};
use crate::dialect::ImportedDocument;
use crate::dialect::aside::TellPutAside;
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};

/// The mark in the name of a file that was put aside.
const MARK: &str = ".conflict";
/// Maximum number of files that are kept aside for one file.
const MOST: usize = 1_000;
/// The longest note about an agent to be told.
const LONGEST_WORD: usize = 4_000;
/// Maximum number of files put aside that one command compares with those in their place, or takes in after all.
const LOOKED_AT_ONCE: usize = 50;

/// A file that was put aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Conflict {
    /// The present name of the file.
    pub file: String,
    /// The name that the file had before.
    pub of: String,
    /// The dialect of the file.
    pub dialect: Dialect,
    /// The time at which the file was written, as it says.
    pub written: Option<Time>,
    /// The differences from the file in its place, in a few words each.
    pub differs: Vec<String>,
    /// The reason why the file cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The commands of which one settles the conflict.
    pub next: Vec<String>,
}

impl Conflict {
    /// Formats the conflict in one line: the file, and the differences.
    pub fn line(&self) -> String {
        let what = match (&self.unreadable, self.differs.is_empty()) {
            (Some(why), _) => why.clone(),
            (None, true) => format!("says the same as {}", self.of),
            (None, false) => self.differs.join(", "),
        };
        match self.written {
            Some(written) => format!("{}, of {}: {what}", self.file, written.to_seconds()),
            None => format!("{}: {what}", self.file),
        }
    }
}

impl MirrorFolder {
    /// The files that were put aside, and what each was called.
    fn kept_beside(&self) -> Vec<(String, String)> {
        let names = self.root.names_in(&self.place).unwrap_or_default();
        let mut kept: Vec<(String, String)> = names
            .into_iter()
            .filter_map(|name| original_name(&name).map(|file| (name.clone(), file.to_owned())))
            .filter(|(_, file)| self.is_document(file) || file == INDEX_FILE)
            .collect();
        kept.sort();
        kept
    }

    /// Moves a file out of the way, under a free name of `file`. A program that has it open goes on writing it there. A
    /// file that is kept already under another name is not kept twice.
    pub(super) fn keep_beside(&self, now: &str, file: &str) -> io::Result<String> {
        let from = self.place.join(now);
        let before = self.kept_beside();
        for number in 1..MOST {
            let kept = match number {
                1 => format!("{file}{MARK}"),
                number => format!("{file}{MARK}.{number}"),
            };
            // A hard link fails where the name is taken.
            match self.root.hard_link(&from, self.place.join(&kept)) {
                Ok(()) => {
                    self.root.remove(&from)?;
                    return self.once(kept, file, &before);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many conflicts are kept next to it"))
    }

    /// The name of the file put aside: the one before, when that has the same content.
    fn once(&self, kept: String, file: &str, before: &[(String, String)]) -> io::Result<String> {
        let read = |name: &str| self.root.read(self.place.join(name), MAX_BYTES);
        let bytes = read(&kept)?;
        for (name, of) in before {
            if of == file && bytes.is_some() && read(name).is_ok_and(|same| same == bytes) {
                self.root.remove(self.place.join(&kept))?;
                return Ok(name.clone());
            }
        }
        Ok(kept)
    }

    /// Reports that a file was put aside: to the user of this command, and to the agent that wrote it, in its mailbox
    /// and with its next command. A file that was put aside before, and is there again, is no news to its agent.
    pub(super) fn tell_of(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        (file, bytes): (&str, &[u8]),
        (kept, why): (&str, &Refusal),
        said: &mut Vec<MirrorNotice>,
    ) -> Result<()> {
        let (why, name) = (&why.message, self.name);
        let line = format!("{why}; it is kept as {name}/{kept}: see `fleet conflicts list`");
        said.push(MirrorNotice::Trouble(line));
        if self.is_judged(kept, bytes) {
            return Ok(());
        }
        self.judge(kept, bytes);
        let request = TellPutAside {
            dialect: self.dialect,
            file: format!("{name}/{file}"),
            kept: format!("{name}/{kept}"),
            text: self.text_in(file, bytes).ok(),
            why: why.clone(),
        };
        let told = match fleet.run(&request, &anonymous_caller(caller)) {
            Ok(told) => told.map(|agent| agent.to_string()),
            Err(Error::Refused(refusal)) => {
                said.push(MirrorNotice::Trouble(refusal.message));
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(agent) = told.filter(|agent| Some(agent) != caller.agent.as_ref()) {
            let _ = self
                .shadows
                .put(to_tell(kept), agent, Replacing::Yes, PRIVATE);
        }
        Ok(())
    }

    /// Says to an agent which of its files were put aside since its last command. A note names an agent and nothing else: the
    /// repository may have brought it.
    pub(super) fn remind(&self, caller: &Caller, said: &mut Vec<MirrorNotice>) {
        let Some(agent) = &caller.agent else {
            return;
        };
        for note in self.shadows.names_in("").unwrap_or_default() {
            let Some(kept) = note.strip_prefix(&to_tell("")) else {
                continue;
            };
            let to = self.shadows.read_text(&note, LONGEST_WORD).ok().flatten();
            if to.as_ref() == Some(agent) {
                let kept = shown(&format!("{}/{kept}", self.name));
                said.push(MirrorNotice::Trouble(format!(
                    "a file of yours was put aside as {kept}: see `fleet conflicts list`"
                )));
                let _ = self.shadows.remove(&note);
            }
        }
    }

    /// Takes in files that were put aside and are whole and newer after all.
    pub(super) fn take_in_conflicts(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        said: &mut Vec<MirrorNotice>,
    ) -> Result<()> {
        let (mut kept_beside, mut bytes_read) = (self.kept_beside(), 0);
        if kept_beside.len() > LOOKED_AT_ONCE {
            // One command looks at some of them: none is hidden behind the others for long.
            let (now, count) = (fleet.now()?.as_millis().unsigned_abs(), kept_beside.len());
            kept_beside.rotate_left(usize::try_from(now).unwrap_or(0) % count);
            kept_beside.truncate(LOOKED_AT_ONCE);
        }
        for (kept, file) in kept_beside {
            bytes_read += self.size(&kept);
            if bytes_read > BYTES_AT_ONCE {
                break;
            }
            let Ok(Some(bytes)) = self.root.read(self.place.join(&kept), MAX_BYTES) else {
                continue;
            };
            if file == INDEX_FILE || self.is_judged(&kept, &bytes) {
                continue;
            }
            let text = match self.text_in(&file, &bytes) {
                Ok(text) if matches!(self.whose(&file, &text), DocumentOwner::Own) => text,
                Ok(_) => continue,
                Err(_) => {
                    if self.is_settled(&kept, fleet.now()?) {
                        self.judge(&kept, &bytes);
                    }
                    continue;
                }
            };
            match self.import(fleet, caller, self.incoming(&file, text, None)) {
                Ok(taken) => {
                    self.say_taken(&kept, taken, said);
                    self.forget(&kept);
                    self.look_again();
                }
                Err(error) => {
                    cannot_be_held(error)?;
                    self.judge(&kept, &bytes);
                }
            }
        }
        Ok(())
    }

    /// The first of the files that were put aside, what each says otherwise, and the number of the others.
    pub(in crate::mirror) fn conflicts(&self) -> (Vec<Conflict>, usize) {
        let (kept, mut last) = (self.kept_beside(), (String::new(), None));
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (name, file) in &kept {
            bytes += self.size(name);
            if found.len() >= LOOKED_AT_ONCE || bytes > BYTES_AT_ONCE {
                break;
            }
            // Many may be kept for one file, which is read once.
            if last.0 != *file {
                let text = self.text_of(file, file);
                last = (file.clone(), text.ok().as_deref().map(json));
            }
            found.push(self.conflict(name, file, last.1.as_ref()));
        }
        let others = kept.len() - found.len();
        (found, others)
    }

    fn size(&self, name: &str) -> usize {
        let seen = self.root.entry(self.place.join(name)).ok().flatten();
        seen.map_or(0, |seen| usize::try_from(seen.size).unwrap_or(usize::MAX))
    }

    /// The text of a file that is called `file`, or was.
    fn text_of(&self, name: &str, file: &str) -> std::result::Result<String, Refusal> {
        let bytes = self.root.read(self.place.join(name), MAX_BYTES);
        let bytes = bytes.map_err(|error| Refusal::new(Code::Failed, error.to_string()))?;
        self.text_in(file, &bytes.unwrap_or_default())
    }

    fn conflict(&self, kept: &str, file: &str, there: Option<&Json>) -> Conflict {
        let aside = self.text_of(kept, file);
        let differs = match (&aside, there) {
            (Ok(aside), Some(there)) => changes(there, &json(aside)),
            (Ok(_), None) => vec![format!("{}/{file} is not there", self.name)],
            (Err(_), _) => Vec::new(),
        };
        let document = aside.as_ref().ok();
        let document = document.and_then(|text| DialectDocument::read(self.dialect, text).ok());
        let shown = format!("{}/{kept}", self.name);
        let word = shell_word(&shown);
        let take = (document.is_some() && file != INDEX_FILE)
            .then(|| format!("fleet conflicts take {word}"));
        let drop = format!("fleet conflicts drop {word}");
        Conflict {
            file: shown,
            of: format!("{}/{file}", self.name),
            dialect: self.dialect,
            written: document.and_then(|document| document.written()),
            differs,
            unreadable: aside.err().map(|refusal| refusal.message),
            next: take.into_iter().chain([drop]).collect(),
        }
    }

    /// Takes in a file that was put aside, though it is older than the store's knowledge: a person has decided so.
    pub(in crate::mirror) fn take_aside(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        kept: &str,
    ) -> Result<Option<ImportedDocument>> {
        let Some((kept, file)) = self.found_beside(kept) else {
            return Ok(None);
        };
        let text = self.text_of(&kept, &file)?;
        let mut incoming = self.incoming(&file, text, None);
        incoming.even_if_older = true;
        let taken = self.import(fleet, caller, incoming)?;
        self.forget(&kept);
        self.look_again();
        Ok(Some(taken))
    }

    /// Deletes a file that was put aside. Returns true when it was there.
    pub(in crate::mirror) fn drop_aside(&self, kept: &str) -> Result<bool> {
        let Some((kept, _)) = self.found_beside(kept) else {
            return Ok(false);
        };
        let removed = self.root.remove(self.place.join(&kept));
        removed.map_err(|error| {
            let (name, kept) = (self.name, shown(&kept));
            Refusal::new(
                Code::Failed,
                format!("cannot delete {name}/{kept}: {error}"),
            )
        })?;
        self.forget(&kept);
        Ok(true)
    }

    /// A file that was put aside, by its name here or in the repository.
    fn found_beside(&self, named: &str) -> Option<(String, String)> {
        let named = Path::new(named);
        self.kept_beside().into_iter().find(|(kept, _)| {
            named == Path::new(self.name).join(kept) || named == self.place.join(kept)
        })
    }

    /// A file that was put aside is settled.
    fn forget(&self, kept: &str) {
        let _ = self.root.remove(self.place.join(kept));
        let _ = self.shadows.remove(judged(kept));
        let _ = self.shadows.remove(to_tell(kept));
        let _ = self.shadows.remove(super::intake::sighted(kept));
    }

    /// Returns true when exactly this content was found not to be importable.
    fn is_judged(&self, kept: &str, bytes: &[u8]) -> bool {
        let known = self.shadows.read_text(judged(kept), LONGEST_WORD);
        known.ok().flatten() == Some(hash(bytes))
    }

    fn judge(&self, kept: &str, bytes: &[u8]) {
        let _ = self
            .shadows
            .put(judged(kept), hash(bytes), Replacing::Yes, PRIVATE);
    }
}

/// Returns the name that a file had before it was put aside.
fn original_name(name: &str) -> Option<&str> {
    let (file, number) = name.rsplit_once(MARK)?;
    let numbered = number
        .strip_prefix('.')
        .is_some_and(|number| number.parse::<u32>().is_ok());
    (number.is_empty() || numbered).then_some(file)
}

fn json(text: &str) -> Json {
    Json::parse(text).map(Json::cleaned).unwrap_or(Json::Null)
}

fn hash(bytes: &[u8]) -> String {
    sha256_hex(&String::from_utf8_lossy(bytes))
}

/// The name of the note that a file was judged.
fn judged(kept: &str) -> String {
    format!(".judged.{kept}")
}

/// The name of the note about the agent to be told with its next command.
fn to_tell(kept: &str) -> String {
    format!(".tell.{kept}")
}
