//! The processes of the demo. Only those that were started here are ever ended, each by its own handle,
//! and none outlives the demo.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::agent::{Duty, Report, Said};

/// How often to look at the processes when they say nothing.
const LOOK: Duration = Duration::from_millis(30);
/// How much longer than the demo an agent would go on, were it not ended.
const MARGIN: Duration = Duration::from_secs(10);

/// The agents of the demo, and what they said.
pub struct Crew {
    folder: PathBuf,
    user_state: Option<PathBuf>,
    deadline: Instant,
    members: Vec<Member>,
    heard: Vec<Heard>,
    sender: Sender<Note>,
    receiver: Receiver<Note>,
}

/// Something an agent said.
#[derive(Clone, Debug)]
pub struct Heard {
    pub who: String,
    pub said: Said,
}

/// How an agent's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// We ended it, and this signal did it.
    Killed { signal: Option<i32> },
    /// It ended by itself, with this to say on stderr.
    Left { code: Option<i32>, said: String },
}

struct Member {
    name: String,
    child: Child,
    ending: Option<Ending>,
    /// What it wrote to stderr, once all it said has been heard.
    complaint: Option<String>,
}

enum Note {
    Said(Heard),
    Closed { who: String, complaint: String },
}

impl Crew {
    /// A crew without agents.
    pub fn new(folder: &Path, user_state: Option<&Path>, deadline: Instant) -> Self {
        let (sender, receiver) = mpsc::channel();
        Self {
            folder: folder.to_path_buf(),
            user_state: user_state.map(Path::to_path_buf),
            deadline,
            members: Vec::new(),
            heard: Vec::new(),
            sender,
            receiver,
        }
    }

    /// Starts an agent: this very program, with nothing of our environment.
    pub fn start(&mut self, name: &str, duty: Duty) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{name} cannot be started: {error}");
        // A little longer than we wait: that we gave up is to be said by us.
        let left = self.deadline.saturating_duration_since(Instant::now()) + MARGIN;
        let mut child = Command::new(std::env::current_exe().map_err(cannot)?)
            .arg("-C")
            .arg(&self.folder)
            .args(["demo-agent", name, "--duty", &duty.word(), "--seconds"])
            .arg(left.as_secs().to_string())
            .env_clear()
            // Where it stands that this fleet is the user's own.
            .envs(
                self.user_state
                    .iter()
                    .map(|state| ("XDG_STATE_HOME", state)),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (who, sender) = (name.to_owned(), self.sender.clone());
        std::thread::spawn(move || listen(&who, out, err, &sender));
        self.members.push(Member {
            name: name.to_owned(),
            child,
            ending: None,
            complaint: None,
        });
        Ok(())
    }

    /// The process id of an agent.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let member = self.members.iter().find(|member| member.name == name)?;
        Some(member.child.id())
    }

    /// Kills an agent with SIGKILL, and waits until it is gone.
    pub fn kill(&mut self, name: &str) -> Result<Ending, String> {
        let member = self
            .members
            .iter_mut()
            .find(|member| member.name == name && member.ending.is_none())
            .ok_or_else(|| format!("{name} is not running"))?;
        let status = member
            .child
            .kill()
            .and_then(|()| member.child.wait())
            .map_err(|error| format!("{name} cannot be killed: {error}"))?;
        let ending = Ending::Killed {
            signal: status.signal(),
        };
        member.ending = Some(ending.clone());
        Ok(ending)
    }

    /// The reports so far.
    pub fn heard(&self) -> &[Heard] {
        &self.heard
    }

    /// Whether an agent has said something that fits.
    pub fn has_said(&self, name: &str, fits: impl Fn(&Report) -> bool) -> bool {
        let said = |heard: &Heard| heard.who == name && fits(&heard.said.report);
        self.heard.iter().any(said)
    }

    /// How each agent ended, as far as it did.
    pub fn endings(&self) -> Vec<(String, Option<Ending>)> {
        let members = self.members.iter();
        members
            .map(|member| (member.name.clone(), member.ending.clone()))
            .collect()
    }

    /// Listens until `done` holds.
    ///
    /// # Errors
    /// When an agent fails, or the time is over.
    pub fn until(
        &mut self,
        what: &str,
        mut done: impl FnMut(&Self) -> Result<bool, String>,
    ) -> Result<(), String> {
        loop {
            self.listen_for(LOOK);
            self.note_endings()?;
            if done(self)? {
                return Ok(());
            }
            if Instant::now() >= self.deadline {
                return Err(format!("time ran out while waiting for {what}"));
            }
        }
    }

    /// Whether everybody has ended.
    pub fn all_ended(&self) -> bool {
        self.members.iter().all(|member| member.ending.is_some())
    }

    /// Ends the agents that still run.
    pub fn dismiss(&mut self) {
        let running: Vec<String> = self
            .members
            .iter()
            .filter(|member| member.ending.is_none())
            .map(|member| member.name.clone())
            .collect();
        for name in running {
            // One that cannot be killed has ended by itself.
            let _ = self.kill(&name);
        }
        for at in 0..self.members.len() {
            self.hear_out(at);
        }
    }

    /// Takes in what was said, waiting for something at most so long.
    fn listen_for(&mut self, span: Duration) {
        let mut wait = span;
        while let Ok(note) = self.receiver.recv_timeout(wait) {
            match note {
                Note::Said(heard) => self.heard.push(heard),
                Note::Closed { who, complaint } => {
                    let mut members = self.members.iter_mut();
                    if let Some(member) = members.find(|member| member.name == who) {
                        member.complaint = Some(complaint);
                    }
                }
            }
            wait = Duration::ZERO;
        }
    }

    /// The last report of an ended agent may still be in the pipe.
    fn hear_out(&mut self, at: usize) {
        let patience = Instant::now() + Duration::from_secs(2);
        while self.members[at].complaint.is_none() && Instant::now() < patience {
            self.listen_for(LOOK);
        }
    }

    fn note_endings(&mut self) -> Result<(), String> {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if member.ending.is_some() {
                continue;
            }
            let Ok(Some(status)) = member.child.try_wait() else {
                continue;
            };
            self.hear_out(at);
            let member = &mut self.members[at];
            let ending = Ending::Left {
                code: status.code(),
                said: member.complaint.clone().unwrap_or_default(),
            };
            member.ending = Some(ending.clone());
            if !status.success() {
                return Err(format!("{} {}", member.name, ending.told()));
            }
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            if member.ending.is_none() {
                let _ = member.child.kill();
                let _ = member.child.wait();
            }
        }
    }
}

impl Ending {
    /// The ending in words.
    pub fn told(&self) -> String {
        match self {
            Self::Killed { signal: Some(9) } => "killed with SIGKILL".to_owned(),
            Self::Killed { signal } => format!("killed, with signal {signal:?}"),
            Self::Left {
                code: Some(0),
                said,
            } if said.is_empty() => "left by itself".to_owned(),
            Self::Left {
                code: Some(code),
                said,
            } => format!("left with exit code {code}: {}", said.trim()),
            Self::Left { code: None, .. } => "ended by a signal that was not ours".to_owned(),
        }
    }
}

/// Reads what an agent says, line by line, and its stderr when it is done.
fn listen(who: &str, out: Option<ChildStdout>, err: Option<ChildStderr>, sender: &Sender<Note>) {
    let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
    let mut complaint = String::new();
    for line in lines.map_while(Result::ok) {
        match serde_json::from_str::<Said>(&line) {
            Ok(said) => {
                let who = who.to_owned();
                let _ = sender.send(Note::Said(Heard { who, said }));
            }
            Err(_) => complaint.push_str(&line),
        }
    }
    if let Some(mut err) = err {
        let _ = err.read_to_string(&mut complaint);
    }
    let _ = sender.send(Note::Closed {
        who: who.to_owned(),
        complaint,
    });
}
