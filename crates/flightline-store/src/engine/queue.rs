//! The queue of writers: processes that want to write to one SQLite store wait here in turn.
//!
//! SQLite's own retry is unfair: under load a process may starve for seconds. The kernel's file lock
//! serves in order. It is for fairness only; SQLite's lock is what keeps writers apart.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use flightline_workspace::beneath::Dir;

use crate::error::StoreError;

/// The file on which writers wait.
pub(crate) const QUEUE: &str = "queue.lock";

/// A process's place in the queue of writers. Its file is opened when it is first needed, and stays open.
#[derive(Debug)]
pub(crate) struct WriterQueue {
    folder: Arc<Dir>,
    /// The process id and the purpose of this process, for processes that wait for the turn.
    said: String,
    file: Option<Arc<File>>,
}

/// A turn to write. It ends when dropped, or when the process does.
#[derive(Debug)]
pub(crate) struct Turn {
    file: Arc<File>,
    waited: bool,
}

impl Turn {
    /// Returns true when another process had its turn first.
    pub(crate) fn was_waited_for(&self) -> bool {
        self.waited
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl WriterQueue {
    pub(crate) fn new(folder: Arc<Dir>, purpose: &str) -> Self {
        Self {
            folder,
            said: format!("{} {purpose}\n", std::process::id()),
            file: None,
        }
    }

    /// Waits for the turn, at most `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<Turn, StoreError> {
        let file = match &self.file {
            Some(file) => match self.folder.check_writable(QUEUE) {
                Ok(()) => Arc::clone(file),
                // The file was removed: later processes will meet at another.
                Err(error) if error.kind() == ErrorKind::NotFound => Arc::new(self.open()?),
                // As when it is opened: where nothing can be written any more, SQLite would end the process when it touches
                // the memory that it shares through a file.
                Err(error) => return Err(self.cannot(&error)),
            },
            None => Arc::new(self.open()?),
        };
        let (file, waited) = match file.try_lock() {
            Ok(()) => (file, false),
            Err(TryLockError::WouldBlock) if patience.is_zero() => {
                return Err(StoreError::Busy("another process is writing".to_owned()));
            }
            Err(TryLockError::WouldBlock) => (Arc::new(self.block(patience)?), true),
            Err(TryLockError::Error(error)) => return Err(self.cannot(&error)),
        };
        self.introduce(&file);
        self.file = Some(Arc::clone(&file));
        Ok(Turn { file, waited })
    }

    fn open(&self) -> Result<File, StoreError> {
        let file = self.folder.lock_file(QUEUE);
        file.map_err(|error| self.cannot(&error))
    }

    /// Writes the name of this process into the file, unless it is there from the last time. Only a courtesy to
    /// processes that wait for the turn: if it cannot be written, the turn stands. It is written over in one piece and
    /// never emptied: to take a block from the file and give it one again costs more than all the rest.
    fn introduce(&self, file: &File) {
        let said = self.said.as_bytes();
        let mut found = vec![0; said.len()];
        let read = file.read_at(&mut found, 0);
        if read.is_err() || found != said {
            let _ = file.write_all_at(said, 0);
        }
    }

    fn block(&self, patience: Duration) -> Result<File, StoreError> {
        // The handle is another than the one that is kept: a wait that was given up goes on, and its turn, when it
        // comes, is passed on.
        let file = self.open()?;
        let (send, receive) = mpsc::channel();
        // A blocked lock cannot be called off, so another thread waits for it. If the turn is no longer wanted when it
        // comes, the send fails and drops the file, which passes the turn on.
        std::thread::spawn(move || {
            let turn = file.lock().map(|()| file);
            let _ = send.send(turn);
        });
        match receive.recv_timeout(patience) {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) => Err(self.cannot(&error)),
            Err(_) => Err(StoreError::Busy(format!(
                "{} has been writing for longer than {}s",
                self.holder(),
                patience.as_secs_f32()
            ))),
        }
    }

    fn holder(&self) -> String {
        let text = self.folder.read_text(QUEUE, 4_096).ok().flatten();
        // The text after the first line is left of an earlier holder.
        let first = text.as_deref().and_then(|text| text.lines().next());
        match first.unwrap_or_default().split_once(' ') {
            Some((pid, purpose)) => format!("process {pid} (`fleet {purpose}`)"),
            _ => "another process".to_owned(),
        }
    }

    fn cannot(&self, error: &std::io::Error) -> StoreError {
        let path = self.folder.path().join(QUEUE);
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly(format!("{}: {error}", path.display()))
            }
            ErrorKind::StorageFull => StoreError::Full(format!("{}: {error}", path.display())),
            _ => StoreError::Engine {
                act: "cannot queue for the store",
                cause: format!("{}: {error}", path.display()),
            },
        }
    }
}
