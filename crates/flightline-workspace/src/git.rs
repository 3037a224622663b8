//! The `git` binary, asked with fixed arguments. Nothing that a repository configures is run, nothing is written, and git is
//! killed when its time is up.

pub mod status;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Repository configuration that could run something, switched off.
const SWITCHED_OFF: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.askPass=",
    "core.sshCommand=false",
    "credential.helper=",
    "diff.external=",
    "protocol.allow=never",
    "submodule.recurse=false",
    // A folder that a clone made look like a repository is none.
    "safe.bareRepository=explicit",
];
/// A repository with more filters than this is not asked for its changes.
const MOST_FILTERS: usize = 64;
/// The names of filters take less than this.
const FILTERS_OUTPUT: usize = 64 * 1024;

/// The part of the environment that git is given: nothing else reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The folders of programs: `PATH`.
    pub path: Option<OsString>,
    /// The folder of the user's own settings: `HOME`.
    pub home: Option<OsString>,
    /// The value of `XDG_CONFIG_HOME`, where git looks for its configuration.
    pub config_home: Option<OsString>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitFailure {
    NoGit,
    TimedOut(Duration),
    /// Git ended with this code; none when a signal ended it.
    Failed(Option<i32>),
    /// Git could not be run, or its answer not be read.
    Trouble(String),
}

impl GitFailure {
    pub fn told(&self) -> String {
        match self {
            Self::NoGit => "there is no `git` on this machine's path".to_owned(),
            Self::TimedOut(limit) => {
                format!("git did not answer within {} ms", limit.as_millis())
            }
            Self::Failed(Some(code)) => {
                format!("git ended with code {code}; `git status` may say why")
            }
            Self::Failed(None) => "git was ended by a signal".to_owned(),
            Self::Trouble(why) => format!("git cannot be asked: {why}"),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct GitOutput {
    /// The beginning of the output, up to the bound.
    pub bytes: Vec<u8>,
    /// The number of ends of records that came after that.
    pub records_dropped: u64,
}

/// A repository and how to ask git about it.
#[derive(Clone, Debug)]
pub struct Repository {
    program: PathBuf,
    surroundings: Surroundings,
    /// The root of its work tree.
    top: PathBuf,
    /// The folder that is asked about, as it is called from the root.
    prefix: PathBuf,
}

impl Repository {
    /// The repository whose work tree has its root at `top`; asked about `prefix` below that, and everything in it.
    pub fn new(surroundings: &Surroundings, top: &Path, prefix: &Path) -> Result<Self, GitFailure> {
        let path = surroundings.path.as_deref();
        let program = find_program(path, "git").ok_or(GitFailure::NoGit)?;
        let path = std::env::join_paths(places(path)).ok();
        Ok(Self {
            program,
            surroundings: Surroundings {
                path,
                ..surroundings.clone()
            },
            top: top.to_path_buf(),
            prefix: prefix.to_path_buf(),
        })
    }

    /// The files that differ from HEAD, and where HEAD is.
    pub fn status(&self, limit: Duration, most: usize) -> Result<GitOutput, GitFailure> {
        let began = Instant::now();
        let filters = self.filters(limit)?;
        let left = limit.saturating_sub(began.elapsed());
        let about = match self.prefix.as_os_str().is_empty() {
            true => Path::new("."),
            false => &self.prefix,
        };
        self.ask_status(&filters, "all", about, left, most)
            .map_err(|silence| match silence {
                GitFailure::TimedOut(_) => GitFailure::TimedOut(limit),
                other => other,
            })
    }

    /// Returns true when git tracks one of these files, or something below one of these folders.
    pub fn tracks(&self, paths: &[&str], limit: Duration) -> Result<bool, GitFailure> {
        let mut command = self.command(&[]);
        command
            .args(["ls-files", "-z", "--cached", "--"])
            .args(paths.iter().map(|path| self.prefix.join(path)));
        let answer = run(command, limit, 4_096)?;
        Ok(!answer.bytes.is_empty())
    }

    /// Asks where HEAD is: the same question about nothing, which costs little however large the work tree is.
    pub fn head(&self, limit: Duration) -> Result<GitOutput, GitFailure> {
        // No file is compared, so no filter is run.
        self.ask_status(&[], "no", Path::new(".git"), limit, 64 * 1024)
    }

    fn ask_status(
        &self,
        filters: &[String],
        untracked: &str,
        about: &Path,
        limit: Duration,
        most: usize,
    ) -> Result<GitOutput, GitFailure> {
        let mut command = self.command(filters);
        command.args([
            "status",
            "--porcelain=v2",
            "-z",
            "--branch",
            "--no-ahead-behind",
            // A renamed file counts as deleted and created; to find out more, git would compare contents.
            "--no-renames",
            // The work trees of submodules are theirs: to look into them, git would run itself there.
            "--ignore-submodules=dirty",
        ]);
        command.arg(format!("--untracked-files={untracked}"));
        command.arg("--").arg(about);
        run(command, limit, most)
    }

    /// Settings that switch off every filter there is: to compare a file, git would run them.
    fn filters(&self, limit: Duration) -> Result<Vec<String>, GitFailure> {
        let mut command = self.command(&[]);
        command.args(["config", "-z", "--name-only", "--get-regexp", r"^filter\."]);
        let answer = match run(command, limit, FILTERS_OUTPUT) {
            Ok(answer) => answer,
            // So it says that there are none.
            Err(GitFailure::Failed(Some(1))) => return Ok(Vec::new()),
            Err(silence) => return Err(silence),
        };
        let too_odd = || GitFailure::Trouble("its filters cannot be switched off".to_owned());
        if answer.records_dropped > 0 {
            return Err(too_odd());
        }
        let mut names = std::collections::BTreeSet::new();
        for key in answer.bytes.split(|byte| *byte == 0) {
            let Some((name, _)) = std::str::from_utf8(key)
                .map_err(|_| too_odd())?
                .strip_prefix("filter.")
                .and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            if name.contains('=') {
                return Err(too_odd());
            }
            names.insert(name);
        }
        if names.len() > MOST_FILTERS {
            return Err(too_odd());
        }
        let off = |name: &&str| {
            ["clean=", "smudge=", "process=", "required=false"]
                .map(|setting| format!("filter.{name}.{setting}"))
        };
        Ok(names.iter().flat_map(off).collect())
    }

    fn command(&self, settings: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--no-pager", "--no-optional-locks", "--literal-pathspecs"])
            // The work tree is given here, so that the repository cannot name another.
            .arg("--work-tree")
            .arg(&self.top)
            .args(SWITCHED_OFF.iter().flat_map(|setting| ["-c", setting]));
        for setting in settings {
            command.args(["-c", setting]);
        }
        command
            // At the root git finds its own folder first. Further below it would take a folder for a repository that only looks
            // like one, which a pull can bring.
            .current_dir(&self.top)
            .env_clear()
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            // A repository around this one is not meant, should this one turn out to be none.
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.top.parent().unwrap_or(&self.top),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The process gets a group of its own, so that its children end with it.
            .process_group(0);
        let kept = [
            ("PATH", &self.surroundings.path),
            ("HOME", &self.surroundings.home),
            ("XDG_CONFIG_HOME", &self.surroundings.config_home),
        ];
        for (name, value) in kept {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command
    }
}

/// Finds a program in the folders of `PATH`.
pub fn find_program(path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    let mut files = places(path).map(|place| place.join(name));
    files.find(|file| is_program(file))
}

/// The folders of `PATH` that are absolute: with relative ones, the repository itself would decide which program runs.
fn places(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let places = path.into_iter().flat_map(std::env::split_paths);
    places.filter(|place| place.is_absolute())
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|seen| seen.is_file() && seen.permissions().mode() & 0o111 != 0)
}

/// Runs a command until it ends or time is up. Keeps the beginning of its output, and counts the rest.
fn run(mut command: Command, limit: Duration, most: usize) -> Result<GitOutput, GitFailure> {
    let deadline = Instant::now() + limit;
    let trouble = |error: io::Error| GitFailure::Trouble(error.to_string());
    let mut child = command.spawn().map_err(trouble)?;
    let answer = match child.stdout.take() {
        Some(output) => collect(&read_aside(output), deadline, limit, most),
        None => Ok(GitOutput::default()),
    };
    let ended = match &answer {
        Ok(_) => wait(&mut child, deadline),
        Err(_) => None,
    };
    let Some(code) = ended else {
        end(&mut child);
        return answer.and(Err(GitFailure::TimedOut(limit)));
    };
    match code {
        Some(0) => answer,
        code => Err(GitFailure::Failed(code)),
    }
}

/// Reads in a thread of its own, because reading cannot be given up. The thread ends with the process it reads from, or when
/// the receiver is dropped.
fn read_aside(mut output: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::sync_channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let part = match output.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => Ok(buffer[..count].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = part.is_err();
            if send.send(part).is_err() || failed {
                return;
            }
        }
    });
    receive
}

fn collect(
    parts: &Receiver<io::Result<Vec<u8>>>,
    deadline: Instant,
    limit: Duration,
    most: usize,
) -> Result<GitOutput, GitFailure> {
    let mut answer = GitOutput::default();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match parts.recv_timeout(left) {
            Ok(Ok(part)) => {
                let room = most.saturating_sub(answer.bytes.len()).min(part.len());
                answer.bytes.extend_from_slice(&part[..room]);
                let dropped = part[room..].iter().filter(|byte| **byte == 0).count();
                answer.records_dropped += dropped as u64;
            }
            Ok(Err(error)) => return Err(GitFailure::Trouble(error.to_string())),
            Err(RecvTimeoutError::Disconnected) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => return Err(GitFailure::TimedOut(limit)),
        }
    }
}

/// Waits for a process that has closed its output: it ends at once, or is up to something.
#[expect(
    clippy::option_option,
    reason = "not ended, ended by a signal, ended with a code"
)]
fn wait(child: &mut Child, deadline: Instant) -> Option<Option<i32>> {
    let mut pause = Duration::from_micros(100);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.code()),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(5));
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Ends a process that we started, with everything it started, by its id.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
