//! Agents' files: spelled in more than one way, and moved away by hand when an agent crashed.

use flightline_core::Time;
use flightline_core::dialect::{Dialect, DialectDocument, epic};
use flightline_workspace::beneath::Replacing;

use super::{MirrorFolder, PRIVATE};
use crate::dialect::Outgoing;
use crate::mirror::MirrorNotice;

/// Prefix under which a moved file is remembered, by its last seen content.
const MOVED: &str = ".moved.";
/// Endings that the seed's own commands give to the file of an agent that has ended.
const ENDINGS: [&str; 3] = ["_crashed_", "_aborted_", "_retired_"];

pub(super) enum DocumentOwner {
    /// The agent that the file is named after, or no agent at all.
    Own,
    /// An agent that has ended.
    Ended,
    /// Another agent, whose file has another name.
    Anothers { agent: String, file: String },
}

impl MirrorFolder {
    /// Returns the owner of this document. An agent's file may be called after its id as it stands, too:
    /// `Secondary-B.json`.
    pub(super) fn whose(&self, file: &str, text: &str) -> DocumentOwner {
        if self.dialect != Dialect::Epic {
            return DocumentOwner::Own;
        }
        let named = DialectDocument::read(Dialect::Epic, text)
            .ok()
            .and_then(|document| {
                let agent = document.word("agent_id").to_owned();
                Some((epic::file_name(&agent).ok()?, agent))
            });
        let stem = file.trim_end_matches(".json");
        match named {
            None => DocumentOwner::Own,
            Some((name, _)) if name == file || epic::file_name(stem).is_ok_and(|it| it == name) => {
                DocumentOwner::Own
            }
            Some((name, _)) if ending_of(&name, file).is_some() => DocumentOwner::Ended,
            Some((file, agent)) => DocumentOwner::Anothers { agent, file },
        }
    }

    /// Notes which of our files were moved away, as the seed does when an agent has crashed or begins from scratch:
    /// they are written again when their agent acts again.
    pub(super) fn note_moved(&self, missing: &[String], said: &mut Vec<MirrorNotice>) {
        if self.dialect != Dialect::Epic {
            return;
        }
        let files = self.root.names_in(&self.place).unwrap_or_default();
        for name in missing {
            let to = files.iter().find(|file| ending_of(name, file).is_some());
            let (Some(to), Some(before)) = (to, self.shadow(name)) else {
                continue;
            };
            let moved = format!("{MOVED}{name}");
            let noted = self.shadows.put(moved, &before, Replacing::Yes, PRIVATE);
            let noted = noted.and_then(|()| self.shadows.remove(name));
            let agent = std::str::from_utf8(&before).ok();
            let agent = agent.and_then(|text| DialectDocument::read(Dialect::Epic, text).ok());
            let agent = agent.map_or_else(|| name.clone(), |it| it.word("agent_id").to_owned());
            said.push(match noted {
                Ok(()) => MirrorNotice::Done(format!(
                    "{0}/{name} was moved to {0}/{to}, and is not written again until {agent} acts; give its work to \
                     another with `fleet agents takeover {agent} NEW`",
                    self.name
                )),
                Err(error) => MirrorNotice::Trouble(format!("{}/{name}: {error}", self.name)),
            });
        }
    }

    /// Returns true when a file was moved away and its agent has not acted since.
    pub(super) fn stays_away(&self, document: &Outgoing) -> bool {
        let moved = format!("{MOVED}{}", document.file);
        let Ok(Some(before)) = self.shadows.read_text(&moved, super::MAX_BYTES) else {
            return false;
        };
        let acted = |text: &str| -> Option<Time> {
            DialectDocument::read(Dialect::Epic, text).ok()?.written()
        };
        let stays = acted(&document.text) <= acted(&before);
        if !stays {
            let _ = self.shadows.remove(moved);
        }
        stays
    }
}

/// Returns the ending of a file's agent, when `other` is a name to which the seed moves its file:
/// `secondary_a_crashed_1768489200.json`.
fn ending_of<'a>(file: &str, other: &'a str) -> Option<&'a str> {
    let rest = other.strip_prefix(file.strip_suffix(".json")?)?;
    let rest = rest.strip_suffix(".json")?;
    ENDINGS.into_iter().find_map(|ending| {
        let time = rest.strip_prefix(ending)?;
        let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        is_time.then_some(time)
    })
}
