//! Notifications of writes among the nodes of one store. They only make things quicker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use flightline::core::{Code, Refusal};
use flightline::store::{Location, NotifyListener, NotifySender};

/// The number of notifications that may wait to be sent. One that finds no room is dropped, and the write is found by
/// looking.
const WAITING: usize = 256;
/// The time to wait for the next notification, and before a lost connection is opened anew.
const PATIENCE: Duration = Duration::from_millis(500);
const CONNECTING: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct NotifyHandle(SyncSender<Option<Arc<str>>>);

impl NotifyHandle {
    /// Notifies other nodes of a write to this project.
    pub(crate) fn tell(&self, project: &Arc<str>) {
        let _ = self.0.try_send(Some(Arc::clone(project)));
    }
}

pub(crate) struct Notifier {
    post: NotifyHandle,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Notifier {
    /// Opens the notifier where there may be other nodes. `heard` is called with each project that was written to, and
    /// with none when notifications may have been missed.
    pub(crate) fn open(
        location: &Location,
        heard: impl Fn(Option<&str>) + Send + 'static,
    ) -> Result<Option<Self>, Refusal> {
        if matches!(location, Location::Folder(_)) {
            return Ok(None);
        }
        let (sender, words) = sync_channel(WAITING);
        let ending = Arc::new(AtomicBool::new(false));
        let (to, from, ended) = (location.clone(), location.clone(), Arc::clone(&ending));
        let threads = vec![
            start("tell", move || tell(&to, &words))?,
            start("hear", move || hear(&from, &ended, &heard))?,
        ];
        Ok(Some(Self {
            post: NotifyHandle(sender),
            ending,
            threads,
        }))
    }

    pub(crate) fn post(&self) -> NotifyHandle {
        self.post.clone()
    }

    pub(crate) fn close(self) {
        self.ending.store(true, Ordering::SeqCst);
        let _ = self.post.0.send(None);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn start(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Refusal> {
    std::thread::Builder::new()
        .name(format!("fleet-{name}"))
        .spawn(life)
        .map_err(|error| Refusal::new(Code::Unavailable, format!("cannot start a thread: {error}")))
}

/// Sends the waiting notifications, each project once.
fn tell(location: &Location, words: &Receiver<Option<Arc<str>>>) {
    let mut bell: Option<NotifySender> = None;
    while let Ok(Some(first)) = words.recv() {
        let mut projects = BTreeSet::from([first]);
        let mut ending = false;
        while let Ok(word) = words.try_recv() {
            match word {
                Some(project) => _ = projects.insert(project),
                None => ending = true,
            }
        }
        if bell.is_none() {
            bell = NotifySender::open(location, CONNECTING).ok().flatten();
        }
        // A node that is not notified finds the write by looking.
        if let Some(open) = &mut bell
            && projects.iter().any(|project| open.ring(project).is_err())
        {
            bell = None;
        }
        if ending {
            return;
        }
    }
}

fn hear(location: &Location, ending: &AtomicBool, heard: &impl Fn(Option<&str>)) {
    let mut ear: Option<NotifyListener> = None;
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    while !ending.load(Ordering::SeqCst) {
        let Some(open) = &mut ear else {
            ear = NotifyListener::open(location, CONNECTING).ok().flatten();
            match ear {
                // Notifications sent before this connection was opened are missed.
                Some(_) => heard(None),
                None => match never.recv_timeout(PATIENCE) {
                    Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                },
            }
            continue;
        };
        match open.hear(PATIENCE) {
            Ok(projects) => projects.iter().for_each(|project| heard(Some(project))),
            Err(_) => ear = None,
        }
    }
}
