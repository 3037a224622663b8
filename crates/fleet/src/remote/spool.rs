//! What is kept on this machine while the server cannot be reached: one queue per agent, in the state folder.
//! An entry is on the disk before anybody is told that it is kept, and it goes only after the server has
//! answered it; whoever dies in between asks again with the same key.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flightline::Caller;
use flightline::core::redact::redact;
use flightline::core::{Code, Refusal, Time};
use flightline::file::{Replacing, plain, put};
use flightline::remote::{Delivery, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of what is written here.
const VERSION: u32 = 1;
/// The largest queue. Whoever cannot be reached for so long needs somebody to look.
const LARGEST: usize = 64 * 1024 * 1024;
/// How long another command's turn is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
const PRIVATE: u32 = 0o600;

/// The queues of a state folder.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

/// A request that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    v: u32,
    /// The key that makes it happen once.
    pub key: String,
    /// The server it is for.
    pub server: String,
    /// When it was asked for, by this machine's clock.
    pub at: Time,
    /// The operation.
    pub operation: String,
    /// What was asked for: nothing in it is secret any more.
    pub request: Value,
    /// Who asked.
    pub agent: Option<String>,
    pub epoch: Option<u64>,
    pub session: Option<String>,
    pub mission: Option<String>,
}

impl Entry {
    /// A request as it is kept.
    pub fn new(key: &str, server: &str, at: Time, call: (&str, &str), caller: &Caller) -> Self {
        let (operation, request) = call;
        let clean = |text: &Option<String>| text.as_deref().map(|text| redact(text).into_owned());
        let mut request: Value = serde_json::from_str(request).unwrap_or_default();
        redact_texts(&mut request);
        Self {
            v: VERSION,
            key: key.to_owned(),
            server: server.to_owned(),
            at,
            operation: operation.to_owned(),
            request,
            agent: clean(&caller.agent),
            epoch: caller.epoch,
            session: clean(&caller.session),
            mission: clean(&caller.mission),
        }
    }

    /// Who asked, as the server is told.
    pub fn caller(&self) -> Caller {
        Caller {
            agent: self.agent.clone(),
            epoch: self.epoch,
            session: self.session.clone(),
            mission: self.mission.clone(),
            idempotency_key: Some(self.key.clone()),
            ..Caller::default()
        }
    }
}

/// Texts of a request clean themselves; what is plain in it, such as a reference, is cleaned here.
fn redact_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(redact_texts),
        Value::Object(fields) => fields.values_mut().for_each(redact_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// One queue, while nobody else has it.
pub struct Queue {
    file: PathBuf,
    _turn: File,
}

impl Spool {
    /// The queues in a state folder. Nothing is made until something is kept.
    pub fn of(state: &Path) -> Self {
        Self {
            folder: state.join("spool"),
        }
    }

    /// Whose queues there are: the names of their files.
    pub fn queues(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".jsonl").map(str::to_owned)
        });
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".damaged")).collect();
        names.sort();
        names
    }

    /// The queue of an agent, or of the person at the keyboard.
    pub fn name_of(agent: Option<&str>) -> String {
        let Some(agent) = agent else {
            return "-".to_owned();
        };
        // A name may hold anything but what a file's name may not.
        let mut name = String::new();
        for byte in agent.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => name.push(char::from(byte)),
                b'-' if !name.is_empty() => name.push('-'),
                byte => name.push_str(&format!("%{byte:02X}")),
            }
        }
        name
    }

    /// Whether something waits in a queue.
    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.folder.join(format!("{name}.jsonl"))).is_ok()
    }

    /// Takes a queue, when it is this command's turn.
    ///
    /// # Errors
    /// When another command has it for too long, or the folder cannot be used.
    pub fn take(&self, name: &str) -> Result<Queue, Refusal> {
        self.take_within(name, PATIENCE)
    }

    /// The same, waiting so long.
    ///
    /// # Errors
    /// As [`Spool::take`].
    pub fn take_within(&self, name: &str, patience: Duration) -> Result<Queue, Refusal> {
        self.make()
            .map_err(|error| self.trouble("make", &self.folder, &error))?;
        let lock = self.folder.join(format!("{name}.lock"));
        let turn = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(PRIVATE)
            .custom_flags(no_follow())
            .open(&lock)
            .map_err(|error| self.trouble("open", &lock, &error))?;
        let began = Instant::now();
        loop {
            match turn.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Refusal::new(
                        Code::Unavailable,
                        "another command delivers what was kept on this machine",
                    )
                    .hint("try again when it is done"));
                }
                Err(TryLockError::Error(error)) => return Err(self.trouble("lock", &lock, &error)),
            }
        }
        Ok(Queue {
            file: self.folder.join(format!("{name}.jsonl")),
            _turn: turn,
        })
    }

    /// Makes the folder. Nothing in a state folder belongs into the repository.
    fn make(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let ignored = self.folder.with_file_name(".gitignore");
        match fs::symlink_metadata(&ignored) {
            Ok(_) => Ok(()),
            Err(_) => fs::write(ignored, "*\n"),
        }
    }

    fn trouble(&self, act: &str, path: &Path, error: &io::Error) -> Refusal {
        Refusal::new(
            Code::Unavailable,
            format!("cannot {act} {}: {error}", path.display()),
        )
        .hint("nothing was kept: what was to be said is lost unless it is said again")
    }

    /// How many wait, of everybody. Looks, and waits for nobody.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for name in self.queues() {
            let file = self.folder.join(format!("{name}.jsonl"));
            let (entries, _) = read(&file).unwrap_or_default();
            if let Some(first) = entries.first() {
                waiting.push(Waiting {
                    agent: first.agent.clone(),
                    count: entries.len(),
                    since: first.at,
                });
            }
        }
        waiting
    }

    /// The lines that could not be read, and are kept aside: in which files.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(".damaged.jsonl"))
            .collect();
        files.sort();
        files
    }

    /// What became of what waited, the last time.
    pub fn last_delivery(&self) -> Option<Delivery> {
        let bytes = plain(&self.folder.join("last-delivery.json"), LARGEST).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Remembers what became of what waited.
    pub fn remember(&self, delivery: &Delivery) -> io::Result<()> {
        let text = serde_json::to_string(delivery).map_err(io::Error::other)?;
        let file = self.folder.join("last-delivery.json");
        put(&file, text, Replacing::Yes, PRIVATE)
    }
}

impl Queue {
    /// What waits, oldest first. Lines that cannot be read are put aside first: the name of their file is
    /// given with them.
    ///
    /// # Errors
    /// When the file cannot be read, or the lines not be put aside.
    pub fn entries(&self) -> io::Result<(Vec<Entry>, Option<PathBuf>)> {
        let (entries, damaged) = read(&self.file)?;
        if damaged.is_empty() {
            return Ok((entries, None));
        }
        // Beside, and on the disk, before they go from here.
        let aside = self.file.with_extension("damaged.jsonl");
        append(&aside, &damaged.join("\n"))?;
        self.replace(&entries)?;
        Ok((entries, Some(aside)))
    }

    /// Puts an entry aside that nobody can use any more.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_aside(&self, entry: &Entry) -> io::Result<PathBuf> {
        let aside = self.file.with_extension("damaged.jsonl");
        let line = serde_json::to_string(entry).map_err(io::Error::other)?;
        append(&aside, &line)?;
        Ok(aside)
    }

    /// Keeps one more. When this returns, it is on the disk.
    ///
    /// # Errors
    /// When it is not.
    pub fn push(&self, entry: &Entry) -> io::Result<usize> {
        let (entries, _) = self.entries()?;
        let line = serde_json::to_string(entry).map_err(io::Error::other)?;
        append(&self.file, &line)?;
        Ok(entries.len() + 1)
    }

    /// Keeps these and no others: those before them were answered.
    ///
    /// # Errors
    /// When it cannot be written: they are asked for again, with the same keys.
    pub fn replace(&self, entries: &[Entry]) -> io::Result<()> {
        if entries.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => sync_folder(&self.file),
            };
        }
        let mut text = String::new();
        for entry in entries {
            text.push_str(&serde_json::to_string(entry).map_err(io::Error::other)?);
            text.push('\n');
        }
        put(&self.file, text, Replacing::Yes, PRIVATE)
    }
}

/// The entries of a file, and the lines that are none.
fn read(file: &Path) -> io::Result<(Vec<Entry>, Vec<String>)> {
    let bytes = plain(file, LARGEST)?.unwrap_or_default();
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) if entry.v == VERSION => entries.push(entry),
            _ => damaged.push(String::from_utf8_lossy(line).into_owned()),
        }
    }
    Ok((entries, damaged))
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    let is_new = fs::symlink_metadata(file).is_err();
    let mut open = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(PRIVATE)
        .custom_flags(no_follow())
        .open(file)?;
    // Whoever was cut short left half a line: it stays one of its own.
    let begun = !is_new && !ends_whole(file)?;
    let text = format!("{}{line}\n", if begun { "\n" } else { "" });
    open.write_all(text.as_bytes())?;
    open.sync_all()?;
    if is_new { sync_folder(file) } else { Ok(()) }
}

fn ends_whole(file: &Path) -> io::Result<bool> {
    let bytes = plain(file, LARGEST)?.unwrap_or_default();
    Ok(bytes.last().is_none_or(|byte| *byte == b'\n'))
}

fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    // The folder itself may be new.
    folder
        .parent()
        .map_or(Ok(()), |above| File::open(above)?.sync_all())
}

fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str) -> Entry {
        let caller = Caller {
            agent: Some("ada".to_owned()),
            ..Caller::default()
        };
        let request = r#"{"text":"the key is AKIAIOSFODNN7EXAMPLE"}"#;
        let at = Time::from_millis(0);
        Entry::new(key, "http://localhost", at, ("add_note", request), &caller)
    }

    #[test]
    fn what_is_kept_comes_back_in_order_and_without_secrets() {
        let temp = tempfile::tempdir().unwrap();
        let spool = Spool::of(temp.path());
        for key in ["a", "b", "c"] {
            let queue = spool.take("ada").unwrap();
            queue.push(&entry(key)).unwrap();
        }
        let queue = spool.take("ada").unwrap();
        let (entries, damaged) = queue.entries().unwrap();
        assert!(damaged.is_none());
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "c"]);
        let text = fs::read_to_string(temp.path().join("spool/ada.jsonl")).unwrap();
        assert!(!text.contains("AKIAIOSFODNN7EXAMPLE"), "{text}");
        let ignored = fs::read_to_string(temp.path().join(".gitignore")).unwrap();
        assert_eq!(ignored, "*\n");
        queue.replace(&entries[1..]).unwrap();
        drop(queue);
        assert_eq!(spool.waiting()[0].count, 2);
        assert_eq!(spool.queues(), ["ada"]);
    }

    #[test]
    fn a_line_that_is_none_is_put_aside_and_stops_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let spool = Spool::of(temp.path());
        spool.take("ada").unwrap().push(&entry("a")).unwrap();
        let file = temp.path().join("spool/ada.jsonl");
        let mut text = fs::read_to_string(&file).unwrap();
        // Cut short in the middle of a line, as by a full disk.
        text.push_str("{\"v\":1,\"key\":\"ha");
        fs::write(&file, text).unwrap();
        let queue = spool.take("ada").unwrap();
        assert_eq!(queue.push(&entry("b")).unwrap(), 2);
        let (entries, damaged) = queue.entries().unwrap();
        assert_eq!(entries.len(), 2);
        assert!(damaged.is_none(), "it was put aside before");
        let aside = fs::read_to_string(&spool.damaged()[0]).unwrap();
        assert_eq!(aside, "{\"v\":1,\"key\":\"ha\n");
    }

    #[test]
    fn every_name_has_a_file_of_its_own() {
        let name = |agent| Spool::name_of(Some(agent));
        assert_eq!(name("Specialist-2"), "Specialist-2");
        assert_eq!(name("../x"), "%2E%2E%2Fx");
        assert_ne!(name("a/b"), name("a_b"));
        assert_ne!(name("-"), Spool::name_of(None));
    }
}
