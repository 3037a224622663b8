//! Finds the agent's session that this process belongs to, when neither FLEET_EPOCH nor FLEET_SESSION names it: the
//! session that a process above it began. So a shell that registered an agent continues as the session it began, and is
//! refused when another has taken its place.
//!
//! The list of sessions is in the user's own folder, not in the repository: it belongs to this machine. Without it nothing
//! fails.

use std::io::Write;
use std::path::{Path, PathBuf};

use flightline::core::agent::{Agent, Process};
use flightline::core::event::sha256_hex;
use flightline::workspace::beneath::{Dir, Replacing};
use flightline::workspace::{all_ancestors, ancestors, is_running};
use flightline_clients::Client;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;
/// The size in bytes above which a file is written anew, without sessions that are over.
const LARGE: usize = 64 * 1024;
/// The size in bytes above which a file is not ours.
const LARGEST: usize = 1024 * 1024;
const PRIVATE: u32 = 0o600;

/// The sessions that were begun on this machine with one fleet.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// The folder of the lists; none where the user has no folder.
    folder: Option<PathBuf>,
    file: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Begun {
    v: u32,
    agent: String,
    epoch: u64,
    /// The processes above the command that began the session, nearest first.
    processes: Vec<Process>,
    /// True when a hook of the client reported the session: then the client is the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_hook: bool,
}

impl Sessions {
    /// The sessions of a fleet at `root`: a project, or a server.
    pub fn of(user_state: Option<&Path>, root: &Path, fleet: &str) -> Self {
        let name = sha256_hex(&format!("{root:?} {fleet}"));
        Self {
            folder: user_state.map(|state| state.join("flightline/sessions")),
            file: format!("{}.jsonl", &name[..32]),
        }
    }

    /// Notes that a process above this one began a session of an agent.
    pub fn begun(&self, agent: &Agent) {
        let begun = Begun {
            v: VERSION,
            agent: agent.name.to_string(),
            epoch: agent.epoch,
            processes: ancestors(),
            by_hook: false,
        };
        if !begun.processes.is_empty() {
            // A caller that needs certainty sets FLEET_EPOCH, which is printed.
            let _ = self.add(&begun);
        }
    }

    /// Notes that a client's session is an agent: commands below its process act as that agent.
    pub fn begun_by_hook(&self, agent: &Agent, client: &Process) {
        let begun = Begun {
            v: VERSION,
            agent: agent.name.to_string(),
            epoch: agent.epoch,
            processes: vec![client.clone()],
            by_hook: true,
        };
        let _ = self.add(&begun);
    }

    /// The agent that the nearest client above this process is, by its hooks, and its epoch.
    pub fn agent_of_client(&self) -> Option<(String, u64)> {
        let mut known = self.read();
        known.retain(|begun| begun.by_hook);
        if known.is_empty() {
            return None;
        }
        // An editor has terminals of people below it; a client in a terminal has only its own.
        let is_editor =
            |begun: &Begun| Client::of_agent(&begun.agent).is_some_and(Client::is_editor);
        let above = match known.iter().any(is_editor) {
            true => ancestors(),
            false => all_ancestors(),
        };
        above.iter().find_map(|process| {
            let mut newest = known.iter().rev();
            let begun = newest.find(|it| it.processes.contains(process))?;
            Some((begun.agent.clone(), begun.epoch))
        })
    }

    /// Notes how often an event has happened in a client's session, and returns true when that is more often than at the
    /// last note. The first note is no news.
    pub fn counts_up(&self, session: &str, now: usize) -> bool {
        let name = format!(
            "{}.count",
            &sha256_hex(&format!("{} {session}", self.file))[..32]
        );
        let folder = self.folder.as_deref().map(Dir::make_private);
        let Some(Ok(folder)) = folder else {
            return false;
        };
        let known = folder.read_text(&name, LARGE).ok().flatten();
        let known: Option<usize> = known.and_then(|text| text.trim().parse().ok());
        if known != Some(now) {
            let _ = folder.put(&name, now.to_string(), Replacing::Yes, PRIVATE);
        }
        known.is_some_and(|known| now > known)
    }

    /// The epoch of an agent that this process belongs to, as far as it is known.
    pub fn epoch_of(&self, agent: &str) -> Option<u64> {
        let mut known = self.read();
        known.retain(|begun| begun.agent == agent);
        if known.is_empty() {
            return None;
        }
        nearest(&known, &ancestors())
    }

    fn read(&self) -> Vec<Begun> {
        let folder = self.folder.as_deref().map(Dir::private_if_there);
        let Some(Ok(Some(folder))) = folder else {
            return Vec::new();
        };
        let text = folder.read_text(&self.file, LARGEST).ok().flatten();
        let text = text.unwrap_or_default();
        let read = |line: &str| serde_json::from_str::<Begun>(line).ok();
        let ours = |begun: &Begun| begun.v == VERSION;
        text.lines().filter_map(read).filter(ours).collect()
    }

    fn add(&self, begun: &Begun) -> std::io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let folder = Dir::make_private(folder)?;
        let line = format!("{}\n", serde_json::to_string(begun)?);
        let size = folder.read(&self.file, LARGEST)?.map_or(0, |it| it.len());
        if size < LARGE {
            return folder.append_file(&self.file)?.write_all(line.as_bytes());
        }
        let mut text = String::new();
        for known in self.read() {
            // Nothing is known of the processes of another machine.
            let over = |process: &Process| is_running(process) == Some(false);
            if !known.processes.iter().all(over) {
                text.push_str(&serde_json::to_string(&known)?);
                text.push('\n');
            }
        }
        folder.put(&self.file, text + &line, Replacing::Yes, PRIVATE)
    }
}

/// Finds the newest session that was begun below the nearest of these processes.
fn nearest(known: &[Begun], above: &[Process]) -> Option<u64> {
    above.iter().find_map(|process| {
        let below = known.iter().filter(|it| it.processes.contains(process));
        below.map(|begun| begun.epoch).max()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Process {
        Process {
            pid,
            started: 7,
            boot_id: "boot".to_owned(),
            host: "here".to_owned(),
        }
    }

    fn begun(epoch: u64, pids: &[u32]) -> Begun {
        Begun {
            v: VERSION,
            agent: "ada".to_owned(),
            epoch,
            processes: pids.iter().copied().map(process).collect(),
            by_hook: false,
        }
    }

    #[test]
    fn a_process_belongs_to_the_session_of_the_nearest_above_it() {
        // Two shells (10, 20) of one terminal (1); the first registered anew.
        let known = [
            begun(1, &[10, 1]),
            begun(2, &[20, 1]),
            begun(3, &[11, 10, 1]),
        ];
        let of = |pids: &[u32]| {
            let above: Vec<Process> = pids.iter().copied().map(process).collect();
            nearest(&known, &above)
        };
        assert_eq!(of(&[20, 1]), Some(2), "whatever began elsewhere since");
        assert_eq!(of(&[33, 10, 1]), Some(3));
        assert_eq!(of(&[40, 1]), Some(3), "another shell of the terminal");
        assert_eq!(of(&[50]), None);
        let reused = Process {
            started: 8,
            ..process(20)
        };
        assert_eq!(nearest(&known, &[reused]), None);
    }

    #[test]
    fn what_was_begun_is_known_below_the_same_process() {
        let home = tempfile::tempdir().unwrap();
        let sessions = Sessions::of(Some(home.path()), Path::new("/repo"), "");
        assert_eq!(sessions.epoch_of("ada"), None);
        for epoch in [1, 2] {
            let begun = Begun {
                processes: ancestors(),
                ..begun(epoch, &[])
            };
            sessions.add(&begun).unwrap();
        }
        assert_eq!(sessions.epoch_of("ada"), Some(2));
        assert_eq!(sessions.epoch_of("bob"), None);
        let other = Sessions::of(Some(home.path()), Path::new("/repo"), "elsewhere");
        assert_eq!(other.epoch_of("ada"), None);
    }

    #[test]
    fn a_long_list_is_written_anew_without_those_that_are_over() {
        let home = tempfile::tempdir().unwrap();
        let sessions = Sessions::of(Some(home.path()), Path::new("/repo"), "");
        let over = |epoch| Begun {
            processes: vec![Process {
                started: 1,
                ..ancestors().remove(0)
            }],
            ..begun(epoch, &[])
        };
        for epoch in 1..600 {
            sessions.add(&over(epoch)).unwrap();
        }
        assert!(sessions.read().len() < 500, "{}", sessions.read().len());
        assert_eq!(sessions.epoch_of("ada"), None);
    }
}
