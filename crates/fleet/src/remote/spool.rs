//! The queue of writes that wait on this machine while the server cannot be reached: for each server one queue per agent
//! and project, or per token. The queues are in the user's own folder, never in the repository: a stranger who can write
//! there must not be able to write with the user's token.
//!
//! An entry is on the disk before the caller is told that it is queued, and it goes only after the server has answered it; a
//! process that dies in between asks again with the same key.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flightline::Caller;
use flightline::core::event::sha256_hex;
use flightline::core::redact::{redact, redact_texts};
use flightline::core::{Code, NoteId, Refusal, Time, TokenId};
use flightline::file::{Replacing, put};
use flightline::remote::{QueueDelivery, Waiting};
use flightline::workspace::beneath::{self, Dir};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::TokenOwner;

#[cfg(test)]
mod tests;

/// The version of an entry's format.
const VERSION: u32 = 2;
/// The most bytes of a queue. A server that cannot be reached for so long needs a person to look.
const LARGEST: usize = 64 * 1024 * 1024;
/// The time for which another command's turn is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
const PRIVATE: u32 = 0o600;

/// The longest name of an agent that names its file.
const LONGEST: usize = 120;

#[derive(Clone, Debug)]
pub struct Spool {
    /// The folder of the queues; none where the user has no folder.
    folder: Option<PathBuf>,
    largest: usize,
}

#[derive(Debug, Default)]
pub struct SpoolContents {
    /// The entries that can be delivered, oldest first.
    pub entries: Vec<SpooledRequest>,
    /// The lines from the first one on that another version wrote, unchanged.
    pub rest: Vec<String>,
    damaged: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpooledRequest {
    v: u32,
    /// The key by which the write happens once.
    pub key: String,
    pub server: String,
    /// The project that the token opened, and the token's id.
    pub project: String,
    pub token: String,
    /// The time of the request, by this machine's clock.
    pub at: Time,
    pub operation: String,
    /// The request, without secrets.
    pub request: Value,
    pub agent: Option<String>,
    pub epoch: Option<u64>,
    pub session: Option<String>,
    pub mission: Option<String>,
}

impl SpooledRequest {
    pub fn new(
        key: &str,
        (server, token_owner): (&str, &TokenOwner),
        at: Time,
        (operation, request): (&str, &str),
        caller: &Caller,
    ) -> Self {
        let clean = |text: &Option<String>| text.as_deref().map(|text| redact(text).into_owned());
        let mut request: Value = serde_json::from_str(request).unwrap_or_default();
        // Texts clean themselves; plain strings, such as references, do not.
        redact_texts(&mut request);
        Self {
            v: VERSION,
            key: key.to_owned(),
            server: server.to_owned(),
            project: token_owner.project.clone(),
            token: token_owner.token.clone(),
            at,
            operation: operation.to_owned(),
            request,
            agent: clean(&caller.agent),
            epoch: caller.epoch,
            session: clean(&caller.session),
            mission: clean(&caller.mission),
        }
    }

    /// Returns true when the request means the same with this token. The named agent acts; without one, the actor depends
    /// on the token.
    pub fn fits(&self, token_owner: &TokenOwner) -> bool {
        self.project == token_owner.project && self.is_own(token_owner)
    }

    fn is_own(&self, token_owner: &TokenOwner) -> bool {
        self.agent.is_some() || self.token == token_owner.token
    }

    /// The token of this entry, when it is another than the caller's: the server allows speaking for it once it is over.
    pub fn on_behalf_of_token(&self, token_owner: &TokenOwner) -> Option<TokenId> {
        match self.is_own(token_owner) {
            true => None,
            false => self.token.parse().ok(),
        }
    }

    /// The id of the note about this entry, should it come too late. It is made of the entry, so that there is one note.
    pub fn note(&self) -> NoteId {
        let Self {
            key,
            token,
            agent,
            operation,
            at,
            ..
        } = self;
        let said = json!([key, token, agent, operation, at]).to_string();
        let digits = &sha256_hex(&said)[..32];
        let number = u128::from_str_radix(digits, 16).unwrap_or_default();
        NoteId::new(uuid::Builder::from_u128(number).into_uuid())
    }

    pub fn caller(&self, token_owner: &TokenOwner) -> Caller {
        Caller {
            on_behalf_of_token: self.on_behalf_of_token(token_owner),
            agent: self.agent.clone(),
            epoch: self.epoch,
            session: self.session.clone(),
            mission: self.mission.clone(),
            idempotency_key: Some(self.key.clone()),
            ..Caller::default()
        }
    }
}

/// A queue that this process has locked.
pub struct SpoolQueue {
    file: PathBuf,
    largest: usize,
    _turn: File,
}

impl Spool {
    /// Opens the queues of the repository at `root`, in the user's state folder. No folder is made until a request is
    /// queued.
    pub fn of(user_state: Option<&Path>, root: &Path) -> Self {
        let name = sha256_hex(&format!("{root:?}"));
        Self {
            folder: user_state.map(|state| state.join("flightline/spool").join(&name[..32])),
            largest: LARGEST,
        }
    }

    /// Refuses a folder that is not the user's own, and theirs alone. A folder that is not there yet passes.
    pub fn check(&self) -> Result<(), Refusal> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        for (above, path) in folder.ancestors().take(3).enumerate() {
            let others = if above == 0 { 0o077 } else { 0o022 };
            let seen = Dir::private_if_there(path).and_then(|folder| match folder {
                Some(folder) => folder.seen().map(Some),
                None => Ok(None),
            });
            match seen {
                Ok(None) => {}
                Ok(Some(seen)) if seen.mode & others == 0 => {}
                Ok(Some(_)) | Err(_) => {
                    return Err(Refusal::new(
                        Code::Unavailable,
                        format!("{} is not a folder of yours alone", path.display()),
                    )
                    .hint(format!(
                        "check it with `ls -ld {0}`; if it is yours, `chmod 700 {0}`",
                        path.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// The folder of the queues, when there can be one and it can be trusted.
    fn folder(&self) -> Option<&Path> {
        self.check().ok()?;
        self.folder.as_deref()
    }

    /// The names of all queues: those of their files, without the ending.
    pub fn queues(&self) -> Vec<String> {
        let files = self.files().into_iter();
        let names = files.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned));
        names.filter(|name| !name.ends_with(".damaged")).collect()
    }

    /// The names of the files in the folder, in order.
    fn files(&self) -> Vec<String> {
        let folder = self.folder().map(Dir::private);
        let names = folder.map(|folder| folder.and_then(|folder| folder.names_in("")));
        names.and_then(Result::ok).unwrap_or_default()
    }

    /// The name of the queue for a server: an agent's in a project, or a token's.
    pub fn name_of(agent: Option<&str>, token_owner: Option<&TokenOwner>, server: &str) -> String {
        at_server(&Self::name_at_any(agent, token_owner), server)
    }

    /// The name of a queue in older versions, in which one queue was for all servers.
    pub fn name_at_any(agent: Option<&str>, token_owner: Option<&TokenOwner>) -> String {
        let Some(agent) = agent else {
            return format!(
                "-@{}",
                token_owner.map_or("", |token_owner| &token_owner.token)
            );
        };
        // An agent's name may hold characters that the name of a file must not have.
        let mut name = String::new();
        for byte in agent.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => name.push(char::from(byte)),
                b'-' if !name.is_empty() => name.push('-'),
                byte => name.push_str(&format!("%{byte:02X}")),
            }
        }
        if name.len() > LONGEST {
            name = format!("%%{}", sha256_hex(agent));
        }
        format!(
            "{name}@{}",
            token_owner.map_or("", |token_owner| &token_owner.project)
        )
    }

    /// Puts every request into the queue of its server: in older versions, one queue was for all. The queues of `asking`
    /// are waited for.
    pub fn sort(&self, asking: &str) -> Result<(), Refusal> {
        let Some(folder) = self.folder() else {
            return Ok(());
        };
        for name in self.queues() {
            let whose = name.rsplitn(2, '@').last().unwrap_or(&name).to_owned();
            let whose = if is_for_any(&name) {
                name.clone()
            } else {
                whose
            };
            let misplaced = |entry: &SpooledRequest| at_server(&whose, &entry.server) != name;
            // The first look is without a turn: nearly always every entry is in its place.
            let seen = read(&file_of(folder, &name), self.largest).unwrap_or_default();
            if !seen.entries.iter().any(misplaced) {
                continue;
            }
            let is_asking = asking.starts_with(&whose);
            let patience = if is_asking { PATIENCE } else { Duration::ZERO };
            let queue = match self.take_within(&name, patience) {
                Ok(queue) => queue,
                Err(refusal) if is_asking => return Err(refusal),
                Err(_) => continue,
            };
            let failed = |error: io::Error| trouble("sort", queue.file(), &error);
            let (kept, _) = queue.kept().map_err(failed)?;
            let (moving, staying): (Vec<_>, Vec<_>) = kept.entries.into_iter().partition(misplaced);
            for entry in &moving {
                let place = self.take(&at_server(&whose, &entry.server))?;
                let (there, _) = place.kept().map_err(failed)?;
                // A process that died here before has done it already.
                if !there.entries.iter().any(|known| known.key == entry.key) {
                    place.push(entry).map_err(failed)?;
                }
            }
            queue.replace(&staying, &kept.rest).map_err(failed)?;
        }
        Ok(())
    }

    pub fn has(&self, name: &str) -> bool {
        let folder = self.folder.as_ref();
        folder.is_some_and(|folder| !matches!(seen(&file_of(folder, name)), Ok(None)))
    }

    /// Locks a queue, when it is this command's turn.
    pub fn take(&self, name: &str) -> Result<SpoolQueue, Refusal> {
        self.take_within(name, PATIENCE)
    }

    /// Locks a queue like [`Spool::take`], with this patience.
    pub fn take_within(&self, name: &str, patience: Duration) -> Result<SpoolQueue, Refusal> {
        let folder = self.make()?;
        let lock = folder.join(format!("{name}.lock"));
        let turn = place(&lock)
            .and_then(|(folder, name)| folder.lock_file(name))
            .map_err(|error| trouble("open", &lock, &error))?;
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
                        "another command is delivering the queue of this machine",
                    )
                    .hint("try again when it is done"));
                }
                Err(TryLockError::Error(error)) => return Err(trouble("lock", &lock, &error)),
            }
        }
        Ok(SpoolQueue {
            file: file_of(folder, name),
            largest: self.largest,
            _turn: turn,
        })
    }

    fn make(&self) -> Result<&Path, Refusal> {
        let folder = self.folder.as_deref().ok_or_else(|| {
            Refusal::new(
                Code::Unavailable,
                "the server cannot be reached, and you have no folder to queue this in",
            )
            .hint("nothing was done or queued: set HOME, or XDG_STATE_HOME, and run it again")
        })?;
        // Before, so that nothing is made behind a link; after, because it is used from now on.
        self.check()?;
        Dir::make_private(folder).map_err(|error| trouble("make", folder, &error))?;
        self.check()?;
        Ok(folder)
    }

    /// Counts the requests that wait in all queues, and those of them that are not for this token. Reads only, and waits
    /// for no lock.
    pub fn waiting(&self, at_hand: Option<&TokenOwner>) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        let Some(folder) = self.folder() else {
            return waiting;
        };
        for name in self.queues() {
            let file = file_of(folder, &name);
            let kept = read(&file, self.largest).unwrap_or_default();
            let count = kept.entries.len() + kept.rest.len();
            if count == 0 {
                continue;
            }
            let first = kept.entries.first();
            let other = |entry: &&SpooledRequest| {
                at_hand.is_some_and(|token_owner| !entry.fits(token_owner))
            };
            let held = kept.entries.iter().find(other);
            waiting.push(Waiting {
                agent: first.and_then(|first| first.agent.clone()),
                server: first.map(|first| first.server.clone()),
                file: file.display().to_string(),
                count,
                since: first.map_or_else(|| changed_at(&file), |first| first.at),
                for_other_token: kept.entries.iter().filter(other).count(),
                token_id: held.map(|entry| entry.token.clone()),
            });
        }
        waiting
    }

    /// The files with lines that could not be read, or could not be delivered, and are kept aside.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let folder = self.folder().unwrap_or(Path::new(""));
        let files = self.files().into_iter();
        let damaged = files.filter(|name| name.ends_with(".damaged.jsonl"));
        damaged.map(|name| folder.join(name)).collect()
    }

    /// The outcome of the last delivery.
    pub fn last_delivery(&self) -> Option<QueueDelivery> {
        let bytes = bytes_of(&self.folder()?.join("last-delivery.json"), LARGEST).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Remembers the outcome of a delivery.
    pub fn remember(&self, delivery: &QueueDelivery) -> io::Result<()> {
        let text = serde_json::to_string(delivery).map_err(io::Error::other)?;
        let folder = self.folder().ok_or(ErrorKind::NotFound)?;
        let file = folder.join("last-delivery.json");
        put(&file, text, Replacing::Yes, PRIVATE)
    }
}

impl SpoolQueue {
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the queue. Lines that cannot be read are put aside first: the name of their file is given with the rest.
    pub fn kept(&self) -> io::Result<(SpoolContents, Option<PathBuf>)> {
        let kept = read(&self.file, self.largest)?;
        if kept.damaged.is_empty() {
            return Ok((kept, None));
        }
        // Beside, and on the disk, before they go from here.
        let aside = self.file.with_extension("damaged.jsonl");
        append(&aside, &kept.damaged.join("\n"))?;
        self.replace(&kept.entries, &kept.rest)?;
        Ok((kept, Some(aside)))
    }

    /// Puts an entry aside that can no longer be delivered.
    pub fn put_aside(&self, entry: &SpooledRequest) -> io::Result<PathBuf> {
        let aside = self.file.with_extension("damaged.jsonl");
        let line = serde_json::to_string(entry).map_err(io::Error::other)?;
        append(&aside, &line)?;
        Ok(aside)
    }

    /// Queues a request. When this returns, it is on the disk. Refuses a queue that would become too large to be read
    /// again.
    pub fn push(&self, entry: &SpooledRequest) -> io::Result<usize> {
        let (kept, _) = self.kept()?;
        let line = serde_json::to_string(entry).map_err(io::Error::other)?;
        let size = seen(&self.file)?.map_or(0, |seen| seen.size);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size.saturating_add(line.len() + 2) > self.largest {
            return Err(io::Error::other(format!(
                "{} would be larger than {} bytes",
                self.file.display(),
                self.largest
            )));
        }
        append(&self.file, &line)?;
        Ok(kept.entries.len() + kept.rest.len() + 1)
    }

    /// Replaces the queue by these entries and lines: the ones before them were answered. When this fails, the requests
    /// are sent again with the same keys.
    pub fn replace(&self, entries: &[SpooledRequest], rest: &[String]) -> io::Result<()> {
        if entries.is_empty() && rest.is_empty() {
            let (folder, name) = place(&self.file)?;
            folder.remove(name)?;
            return folder.sync();
        }
        let mut text = String::new();
        for entry in entries {
            text.push_str(&serde_json::to_string(entry).map_err(io::Error::other)?);
            text.push('\n');
        }
        for line in rest {
            text.push_str(line);
            text.push('\n');
        }
        put(&self.file, text, Replacing::Yes, PRIVATE)
    }
}

fn trouble(act: &str, path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot {act} {}: {error}", path.display()),
    )
    .hint("nothing was queued: the request is lost unless you run it again")
}

fn at_server(whose: &str, server: &str) -> String {
    format!("{whose}@{}", &sha256_hex(server)[..12])
}

/// Returns true for a queue of an older version, for all servers. The name of an agent or a person, and the place, hold no
/// `@`.
fn is_for_any(name: &str) -> bool {
    name.matches('@').count() < 2
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.jsonl"))
}

/// The folder that holds a file of a queue, and its name there.
fn place(file: &Path) -> io::Result<(Dir, &OsStr)> {
    let name = file.file_name().ok_or(ErrorKind::InvalidInput)?;
    Ok((Dir::private(file.parent().unwrap_or(file))?, name))
}

/// Reads the bytes of a plain file of the user's own.
fn bytes_of(file: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let (folder, name) = place(file)?;
    folder.read(name, most)
}

fn seen(file: &Path) -> io::Result<Option<beneath::DirEntry>> {
    match Dir::private_if_there(file.parent().unwrap_or(file))? {
        Some(folder) => folder.entry(file.file_name().unwrap_or_default()),
        None => Ok(None),
    }
}

fn changed_at(file: &Path) -> Time {
    let seen = seen(file).ok().flatten();
    Time::from_millis(seen.map_or(0, |seen| seen.modified.saturating_mul(1_000)))
}

fn read(file: &Path, most: usize) -> io::Result<SpoolContents> {
    let bytes = bytes_of(file, most)?.unwrap_or_default();
    let mut kept = SpoolContents::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let text = || String::from_utf8_lossy(line).into_owned();
        match serde_json::from_slice::<SpooledRequest>(line) {
            // In order: nothing is delivered before a line that is not understood.
            _ if !kept.rest.is_empty() => kept.rest.push(text()),
            Ok(entry) if entry.v == VERSION => kept.entries.push(entry),
            _ if is_of_another_version(line) => kept.rest.push(text()),
            _ => kept.damaged.push(text()),
        }
    }
    Ok(kept)
}

/// Returns true when a line that is no entry of ours is whole, and of another version.
fn is_of_another_version(line: &[u8]) -> bool {
    let whole = serde_json::from_slice::<Value>(line);
    whole.is_ok_and(|whole| whole["v"].is_number())
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    let (folder, name) = place(file)?;
    let before = folder.open_file(name)?;
    let is_new = before.is_none();
    // A process that was cut short left half a line: it stays one of its own.
    let begun = match before {
        Some(before) => !ends_whole(before)?,
        None => false,
    };
    let mut open = folder.append_file(name)?;
    let text = format!("{}{line}\n", if begun { "\n" } else { "" });
    open.write_all(text.as_bytes())?;
    open.sync_all()?;
    if is_new { sync_folder(file) } else { Ok(()) }
}

fn ends_whole(mut open: File) -> io::Result<bool> {
    if open.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    open.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    open.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn sync_folder(file: &Path) -> io::Result<()> {
    let (folder, _) = place(file)?;
    folder.sync()?;
    // The folder itself may be new.
    match folder.path().parent() {
        Some(above) => Dir::shared(above)?.sync(),
        None => Ok(()),
    }
}
