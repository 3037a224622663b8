//! Processes of this machine, named so that a reused pid or a reboot is not taken for them.
#![expect(clippy::disallowed_methods, reason = "the system's own files: /proc")]

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::OnceLock;

use flightline_core::agent::Process;
use flightline_core::time::Uptime;

/// Describes the process `pid`, when it is running here.
pub fn describe(pid: u32) -> Option<Process> {
    Some(Process {
        pid,
        started: started(pid)?,
        boot_id: boot_id()?,
        host: host_name(),
    })
}

/// Returns true when `process` is running; none when it belongs to another machine, where we cannot look.
pub fn is_running(process: &Process) -> Option<bool> {
    if process.host != host_name() {
        return None;
    }
    let here = boot_id()?;
    Some(process.boot_id == here && started(process.pid) == Some(process.started))
}

/// The most processes that are followed upwards.
const MOST_ANCESTORS: usize = 32;

/// The processes above this one, nearest first, up to the shell of its terminal: clients often start each command in a
/// session of its own, which has none. Empty where the system does not tell.
pub fn ancestors() -> Vec<Process> {
    above(Terminals::EndIt)
}

/// The processes above this one, nearest first, also beyond the shell of its terminal: some clients run commands in a terminal of their own.
pub fn all_ancestors() -> Vec<Process> {
    above(Terminals::GoOn)
}

/// The effect of a terminal's shell on the way upwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminals {
    EndIt,
    GoOn,
}

fn above(terminals: Terminals) -> Vec<Process> {
    let Some(boot_id) = boot_id() else {
        return Vec::new();
    };
    let host = host_name();
    let found = stats_above(terminals).map(|stat| stat.process(&boot_id, &host));
    found.collect()
}

/// Returns the system's records of the processes above this one, nearest first. Each is asked for when it is wanted.
fn stats_above(terminals: Terminals) -> impl Iterator<Item = Stat> {
    let mut below = stat(std::process::id());
    let next = move || {
        let last = below.take()?;
        // The first process of a machine is above all others, and so are the parents of the shells of terminals.
        if last.parent <= 1 || (last.leads_terminal() && terminals == Terminals::EndIt) {
            return None;
        }
        let above = stat(last.parent)?;
        below = Some(above.clone());
        Some(above)
    };
    std::iter::from_fn(next).take(MOST_ANCESTORS)
}

/// The process of the client that started this one: the nearest above it that is no shell.
pub fn client_process() -> Option<Process> {
    let is_client = |stat: &Stat| !SHELLS.contains(&stat.command.as_str());
    let client = stats_above(Terminals::EndIt).find(is_client)?;
    Some(client.process(&boot_id()?, &host_name()))
}

/// Programs that start the commands of others.
const SHELLS: [&str; 9] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "timeout", "env",
];

/// The end of a file that a client writes: at most so many bytes. None when it is no plain file, or cannot be read.
pub fn tail_of(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut file = fs::File::open(path).ok()?;
    let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let begin = about.len().saturating_sub(most);
    file.seek(SeekFrom::Start(begin)).ok()?;
    let size = usize::try_from(about.len().min(most)).unwrap_or(0);
    let mut tail = Vec::with_capacity(size.saturating_add(64));
    file.take(most).read_to_end(&mut tail).ok()?;
    Some(tail)
}

/// The name of the user that this process runs as, by the system's own file; none when it is not in there.
pub fn user_name() -> Option<String> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let file = fs::read_to_string("/etc/passwd").ok()?;
    let name = file.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user).then_some(name)
    });
    name.filter(|name| !name.is_empty()).map(str::to_owned)
}

pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// A process that has a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    pub command: String,
    /// True when the process was stopped, and so will not go on by itself.
    pub stopped: bool,
}

/// The other processes of this machine that have `file` open, as far as we may know; those that are stopped first.
pub fn holders(file: &Path) -> Vec<Holder> {
    let Ok(file) = file.canonicalize() else {
        return Vec::new();
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut holders: Vec<Holder> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && has_open(*pid, &file))
        .map(|pid: u32| Holder {
            pid,
            command: fs::read_to_string(format!("/proc/{pid}/comm"))
                .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned()),
            stopped: matches!(state(pid).as_deref(), Some("T" | "t")),
        })
        .collect();
    holders.sort_by_key(|holder| (!holder.stopped, holder.pid));
    holders
}

fn has_open(pid: u32, file: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut links = open.into_iter().flatten().flatten();
    links.any(|link| fs::read_link(link.path()).is_ok_and(|target| target == file))
}

/// Returns the state of a process, in one letter.
fn state(pid: u32) -> Option<String> {
    let text = told(&format!("/proc/{pid}/stat"))?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    fields.next().map(str::to_owned)
}

/// Returns the time for which this machine has been running, sleep included.
pub fn uptime() -> Option<Uptime> {
    let text = told("/proc/uptime")?;
    Some(Uptime {
        boot: boot_id()?,
        ms: millis(text.split_whitespace().next()?)?,
    })
}

/// Reads seconds with a fraction, such as `350735.47`.
fn millis(seconds: &str) -> Option<u64> {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let fraction: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000)?
        .checked_add(fraction)
}

fn boot_id() -> Option<String> {
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    let read = || Some(told("/proc/sys/kernel/random/boot_id")?.trim().to_owned());
    KNOWN.get_or_init(read).clone()
}

/// Returns the text of a small file of the system. Such a file has no length that is known before, and is told in one
/// piece.
fn told(path: &str) -> Option<String> {
    let mut text = String::with_capacity(1024);
    let file = fs::File::open(path).ok()?;
    file.take(64 * 1024).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the time at which a process started, in clock ticks since boot; none when it is not running. A zombie is
/// not.
fn started(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

#[derive(Clone)]
struct Stat {
    pid: u32,
    command: String,
    parent: u32,
    session: u32,
    /// The number of the terminal; 0 when there is none.
    terminal: i64,
    /// Time at which the process started, in clock ticks since boot.
    started: u64,
}

impl Stat {
    fn leads_terminal(&self) -> bool {
        self.session == self.pid && self.terminal != 0
    }

    fn process(&self, boot_id: &str, host: &str) -> Process {
        Process {
            pid: self.pid,
            started: self.started,
            boot_id: boot_id.to_owned(),
            host: host.to_owned(),
        }
    }
}

/// Reads the record of a process; none when it is not running. A zombie is not.
fn stat(pid: u32) -> Option<Stat> {
    let text = told(&format!("/proc/{pid}/stat"))?;
    // The second field is the command in brackets, and may hold anything: read behind the last one.
    let (head, rest) = text.rsplit_once(')')?;
    let (_, command) = head.split_once('(')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Stat {
        pid,
        command: command.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        terminal: fields.get(4)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_machine_is_running_for_longer_and_longer() {
        let before = uptime().unwrap();
        assert!(before.ms > 0);
        assert!(uptime().unwrap().since(&before).is_some());
        assert_eq!(
            (
                millis("350735.47"),
                millis("7"),
                millis("0.001"),
                millis("x.1")
            ),
            (Some(350_735_470), Some(7_000), Some(1), None)
        );
    }

    #[test]
    fn a_process_is_seen_while_it_runs_and_not_afterwards() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = describe(child.id()).unwrap();
        assert_eq!(is_running(&process), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(is_running(&process), Some(false));
    }

    #[test]
    fn the_processes_above_this_one_are_known() {
        let above = ancestors();
        assert_eq!(above[0].pid, std::os::unix::process::parent_id());
        assert!(
            above
                .iter()
                .all(|process| is_running(process) == Some(true))
        );
    }

    #[test]
    fn a_process_is_named_as_the_system_names_it() {
        let own = stat(std::process::id()).unwrap();
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(own.command, name.trim_end());
        let client = client_process();
        let above = ancestors();
        let nearest = above.iter().position(|it| Some(it) == client.as_ref());
        for shell in above.iter().take(nearest.unwrap_or(above.len())) {
            let name = stat(shell.pid).unwrap().command;
            assert!(SHELLS.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn another_machine_another_boot_and_a_reused_pid_are_told_apart() {
        let own = describe(std::process::id()).unwrap();
        assert_eq!(
            is_running(&Process {
                host: "elsewhere".to_owned(),
                ..own.clone()
            }),
            None
        );
        assert_eq!(
            is_running(&Process {
                boot_id: "another".to_owned(),
                ..own.clone()
            }),
            Some(false)
        );
        assert_eq!(
            is_running(&Process {
                started: own.started + 1,
                ..own
            }),
            Some(false)
        );
    }
}
