//! The stage of the demo: a folder with a repository in it, and the processes of its agents. No process outlives the demo.
#![expect(
    clippy::disallowed_methods,
    reason = "the demo works in a folder that it makes itself"
)]

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flightline::core::{Code, Refusal};
use flightline::store::clock::IdSource;
use serde_json::Value;

use super::DemoStep;
use crate::config::Environment;

/// The folder, the agents, and the ids that were shown so far.
pub struct Stage {
    pub folder: PathBuf,
    program: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    agents: Vec<(String, Child)>,
    /// The values of the placeholders `{…}` in the script: the id that was printed before a title, or the word after
    /// `--ack`.
    shown: BTreeMap<String, String>,
    /// The session of each agent, as it was printed last.
    epochs: BTreeMap<String, String>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (_, child) in &mut self.agents {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Stage {
    /// Makes a repository in a new folder, or in the named one when it is empty.
    pub fn new(named: Option<PathBuf>, around: &Environment) -> Result<Self, Refusal> {
        let folder = make_folder(named)?;
        make_repository(&folder).map_err(|error| {
            failed(format_args!(
                "cannot make a repository in {}: {error}",
                folder.display()
            ))
        })?;
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        // Nothing else of the caller's environment: the store is the embedded one. That it is the user's own is kept where such
        // things are kept.
        let mut environment = vec![("USER", PathBuf::from(&around.user))];
        environment.extend(
            around
                .user_state
                .clone()
                .map(|state| ("XDG_STATE_HOME", state)),
        );
        Ok(Self {
            folder,
            program,
            environment,
            agents: Vec::new(),
            shown: BTreeMap::new(),
            epochs: BTreeMap::new(),
        })
    }

    /// Plays a line of the script.
    pub fn act(&mut self, line: &str) -> Result<DemoStep, Refusal> {
        let line = self.filled_in(line)?;
        if let Some(name) = line.strip_prefix("start ") {
            return self.start(name);
        }
        if let Some(name) = line.strip_prefix("kill ") {
            return self.kill(name);
        }
        let (expected, line) = match line.split_once(' ') {
            Some((code, rest)) if code.parse::<i32>().is_ok() => (code.parse().unwrap_or(0), rest),
            _ => (0, &*line),
        };
        let (who, command) = line
            .split_once("$ ")
            .ok_or_else(|| failed(format_args!("the script has a line `{line}`")))?;
        let who = Some(who.to_owned()).filter(|who| !who.is_empty());
        let (output, exit_code) = match command.strip_prefix("fleet ") {
            Some(typed) => self.fleet(&words(typed), who.as_deref())?,
            None => self.write(command)?,
        };
        self.learn(&output);
        Ok(DemoStep {
            who,
            command: command.to_owned(),
            output,
            exit_code,
            expected,
        })
    }

    /// Runs this program for the user, or for an agent in the session that it was told of.
    fn fleet(
        &self,
        arguments: &[String],
        who: Option<&str>,
    ) -> Result<(String, Option<i32>), Refusal> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null());
        if let Some(who) = who {
            command.env("FLEET_AGENT", who);
            command.envs(self.epochs.get(who).map(|epoch| ("FLEET_EPOCH", epoch)));
        }
        let ran = command.output().map_err(|error| failed(&error))?;
        let said = [ran.stdout, ran.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        Ok((said.concat().trim_end().to_owned(), ran.status.code()))
    }

    /// The answer of a command, as JSON.
    pub fn ask(&self, typed: &str) -> Option<Value> {
        let arguments = words(&format!("{typed} --json"));
        let (output, code) = self.fleet(&arguments, None).ok()?;
        serde_json::from_str(&output)
            .ok()
            .filter(|_| code == Some(0))
    }

    pub fn lines_of(&self, file: &str) -> usize {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().count()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the process of an agent, and registers it.
    fn start(&mut self, name: &str) -> Result<DemoStep, Refusal> {
        let mut command = self.command();
        let child = command
            .arg("demo-agent")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = child.spawn().map_err(|error| failed(&error))?;
        let pid = child.id();
        self.agents.push((name.to_owned(), child));
        let typed = format!("agents register {name} --pid {pid}");
        let (output, exit_code) = self.fleet(&words(&typed), None)?;
        self.learn(&output);
        Ok(DemoStep {
            who: None,
            command: format!("fleet {typed}"),
            output,
            exit_code,
            expected: 0,
        })
    }

    /// Kills the process of an agent with SIGKILL, and waits until it is gone.
    fn kill(&mut self, name: &str) -> Result<DemoStep, Refusal> {
        let (_, child) = self
            .agents
            .iter_mut()
            .find(|(known, _)| known == name)
            .ok_or_else(|| failed(format_args!("{name} was not started")))?;
        let ended = child.kill().and_then(|()| child.wait());
        ended.map_err(|error| failed(format_args!("{name} cannot be killed: {error}")))?;
        Ok(DemoStep {
            who: None,
            command: format!("kill -9 {}   # {name}", child.id()),
            output: String::new(),
            exit_code: Some(0),
            expected: 0,
        })
    }

    /// Runs `echo "…" > FILE`, or `>>`: the only other thing that agents do.
    fn write(&self, command: &str) -> Result<(String, Option<i32>), Refusal> {
        let unknown = || failed(format_args!("the script has a line `{command}`"));
        let (text, file) = command
            .split_once(" > ")
            .or_else(|| command.split_once(" >> "))
            .ok_or_else(unknown)?;
        let text = text
            .strip_prefix("echo ")
            .ok_or_else(unknown)?
            .trim_matches('"');
        let mut options = OpenOptions::new();
        let options = match command.contains(" >> ") {
            true => options.create(true).append(true),
            false => options.create(true).write(true).truncate(true),
        };
        let written = options
            .open(self.folder.join(file))
            .and_then(|mut file| writeln!(file, "{text}"));
        written.map_err(|error| failed(format_args!("cannot write {file}: {error}")))?;
        Ok((String::new(), Some(0)))
    }

    /// Notes the ids and words in an output: `srt-1a2b  Title`, `--ack WORD`, `FLEET_AGENT=NAME FLEET_EPOCH=NUMBER`.
    fn learn(&mut self, output: &str) {
        for line in output.lines() {
            if let Some((id, title)) = line.trim().split_once("  ")
                && id.starts_with("srt-")
            {
                let known = self.shown.entry(title.trim().to_owned());
                known.or_insert_with(|| id.to_owned());
            }
            if let Some((_, session)) = line.split_once("FLEET_AGENT=")
                && let Some((name, rest)) = session.split_once(" FLEET_EPOCH=")
                && let Some(epoch) = rest.split(' ').next()
            {
                self.epochs.insert(name.to_owned(), epoch.to_owned());
            }
            if let Some((_, rest)) = line.split_once("--ack ")
                && let Some(word) = rest.split([' ', '`']).next()
            {
                self.shown.insert("ack".to_owned(), word.to_owned());
            }
        }
    }

    fn filled_in(&self, line: &str) -> Result<String, Refusal> {
        let Some((before, rest)) = line.split_once('{') else {
            return Ok(line.to_owned());
        };
        let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
        let value = self
            .shown
            .get(name)
            .ok_or_else(|| failed(format_args!("nothing was printed that `{name}` stands for")))?;
        Ok(format!("{before}{value}{after}"))
    }
}

fn failed(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Failed, format!("the demo cannot go on: {why}"))
}

/// Splits a command line into words as a shell would, with double quotes alone.
fn words(typed: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (number, part) in typed.split('"').enumerate() {
        match number % 2 {
            0 => all.extend(part.split_whitespace().map(str::to_owned)),
            _ => all.push(part.to_owned()),
        }
    }
    all
}

/// Breaks a line between words into pieces of at most `width` characters.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    let indent: String = line.chars().take_while(|it| *it == ' ').collect();
    let mut pieces = vec![indent.clone()];
    for word in line[indent.len()..].split_inclusive(' ') {
        let room = pieces.last().map_or(0, |piece| piece.chars().count());
        if room + word.trim_end().chars().count() > width && room > indent.len() {
            pieces.push(format!("{indent}  "));
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(word);
        }
    }
    pieces
        .into_iter()
        .map(|piece| piece.trim_end().to_owned())
        .collect()
}

/// Makes the folder, or takes the named one when it is empty.
fn make_folder(named: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    let path = match named {
        Some(path) => path,
        None => {
            let id = IdSource::Random.next().simple().to_string();
            std::env::temp_dir().join(format!("flightline-demo-{}", &id[..8]))
        }
    };
    let cannot = |why: &dyn std::fmt::Display| {
        Refusal::invalid(format!("cannot use {}: {why}", path.display()))
            .hint("name another folder with `--in`")
    };
    if path.exists() {
        if !path.is_dir() {
            return Err(cannot(&"it is not a folder"));
        }
        let mut inside = fs::read_dir(&path).map_err(|error| cannot(&error))?;
        if inside.next().is_some() {
            return Err(Refusal::invalid(format!("{} is not empty", path.display()))
                .hint("name a folder that is empty or not there yet, or leave `--in` out"));
        }
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .and_then(|()| path.canonicalize())
        .map_err(|error| cannot(&error))
}

/// Makes a repository with git when it is there, else the folder by which a repository is known.
fn make_repository(folder: &Path) -> std::io::Result<()> {
    let made = Command::new("git")
        .args([
            "-c",
            "init.defaultBranch=main",
            "init",
            "--quiet",
            "--template=",
        ])
        .current_dir(folder)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_OBJECT_DIRECTORY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => fs::create_dir_all(folder.join(".git")),
    }
}
